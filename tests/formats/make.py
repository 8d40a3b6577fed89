"""Writes the messages of the formats that are made by hand, from the formats' documentation, out of the history.

    python3 tests/formats/make.py        # rewrites tests/formats/*/messages.jsonl and tests/formats/expected.json

One line a message: {"topic", "partition", "key", "value", "headers"}; key and value are the text of the message, or
null. The folders debezium, debezium_plain and debezium_unwrapped are recorded from the real thing instead, by
scripts/record-debezium.
"""

import base64
import json
import pathlib

from history import AFTER, BEFORE, LONG, final_rows, money

FOLDER = pathlib.Path(__file__).parent
TRANSACTIONS = [[("insert", None, row)] for row in BEFORE] + AFTER


def text(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def key_of(row):
    return {"order_id": row["order_id"], "line_no": row["line_no"]}


def partition_of(order_id):
    return sum(order_id.encode()) % 3


def write(name, lines):
    folder = FOLDER / name
    folder.mkdir(exist_ok=True)
    with open(folder / "messages.jsonl", "w") as out:
        out.writelines(text(line) + "\n" for line in lines)


def message(order_id, key, value, partition=None, **more):
    return {"partition": partition_of(order_id) if partition is None else partition,
            "key": None if key is None else text(key), "value": None if value is None else text(value), **more}


def with_old():
    """Each step with the row that it finds."""
    rows = {}
    for number, transaction in enumerate(TRANSACTIONS):
        steps = []
        for what, key, new in transaction:
            old = rows.pop(key, None) if key else None
            if new is not None:
                rows[(new["order_id"], new["line_no"])] = new
            steps.append((what, old, new))
        yield number, steps


def native():
    """Sequences from 1; two lines of an order in one array; a part of the key in a header; a heartbeat at the end."""
    seq, lines = 0, []
    for _, steps in with_old():
        events = []
        for what, old, new in steps:
            gone = [(old, "D")] if what in ("delete", "rekey") else []
            come = [(new, "I" if old is None or what == "rekey" else "U")] if new else []
            for row, op in gone + come:
                seq += 1
                event = {"event_id": f"EV{seq}", "source_seq": seq, "op": op, **key_of(row)}
                events.append({**event, "row": None if op == "D" else row})
        if len(events) > 1:
            lines.append(message(events[0]["order_id"], None, events))
            continue
        event = events[0]
        headers = []
        if seq % 2:
            headers = [["line-no", str(event.pop("line_no"))]]
        lines.append(message(event["order_id"], None, event, headers=headers))
    lines += [message("", None, {"heartbeat": seq}, partition=n) for n in range(3)]
    return lines


def source_row(row):
    """The row as the source's table has it: money as decimals."""
    out = {name: value for name, value in row.items() if not name.endswith("_cents")}
    out.update(amount=money(row["amount_cents"]), cost=money(row["cost_cents"]))
    return out


def upsert():
    """States by key; some were compacted away before anybody read them."""
    lines = []
    for number, steps in with_old():
        for what, old, new in steps:
            if what in ("delete", "rekey"):
                lines.append(message(old["order_id"], key_of(old), None))
            if new is not None:
                row = source_row(new)
                # The amount as a number: digits beyond a double's must survive.
                value = text(row).replace(f'"{row["amount"]}"', row["amount"], 1)
                lines.append({"partition": partition_of(new["order_id"]), "key": text(key_of(new)), "value": value})
    last = {line["key"]: number for number, line in enumerate(lines)}
    return [dict(line, compacted=True) if number % 2 and last[line["key"]] != number else line
            for number, line in enumerate(lines)]


def bare(row):
    """As Maxwell writes a row: decimals are numbers."""
    out = text(source_row(row))
    for name in ("amount", "cost"):
        value = money(row[f"{name}_cents"])
        out = out.replace(f'"{name}":"{value}"', f'"{name}":{value}')
    return out


def maxwell():
    """With output_binlog_position, output_xoffset and output_commit_info; another table and a schema change beside."""
    lines, position, file = [], 154, 3
    for number, steps in with_old():
        position += 400
        if number == 12:
            file, position = 4, 154
        for offset, (what, old, new) in enumerate(steps):
            last = offset + 1 == len(steps)
            kind = {"insert": "insert", "update": "update", "rekey": "update", "delete": "delete"}[what]
            if number < len(BEFORE):
                kind = "bootstrap-insert"
            row = new or old
            head = {"database": "shop", "table": "order_lines", "type": kind, "ts": 1790154000 + number,
                    "xid": 900 + number, "position": f"mysql-bin.{file:06}:{position + offset * 20}"}
            if kind == "bootstrap-insert":
                head.update(position="mysql-bin.000003:154")
                del head["xid"]
            else:
                head.update({"commit": True} if last else {"xoffset": offset})
            value = text(head)[:-1] + ',"data":' + bare(row)
            if kind == "update":
                changed = {n: v for n, v in source_row(old).items() if source_row(new)[n] != v}
                old_text = text(changed)
                for name in ("amount", "cost"):
                    if name in changed:
                        old_text = old_text.replace(f'"{name}":"{changed[name]}"', f'"{name}":{changed[name]}')
                value += ',"old":' + old_text
            key = {"database": "shop", "table": "order_lines", "pk.order_id": row["order_id"],
                   "pk.line_no": row["line_no"]}
            lines.append({"partition": 0, "key": text(key), "value": value + "}"})
        if number == 10:
            other = {"database": "shop", "table": "customers", "type": "insert", "ts": 1790154000, "xid": 1,
                     "position": f"mysql-bin.{file:06}:{position + 100}", "commit": True,
                     "data": {"id": 1, "order_id": "O1001", "line_no": 1}}
            lines.append(message("", {"database": "shop", "table": "customers", "pk.id": 1}, other, partition=0))
            ddl = {"type": "table-alter", "database": "shop", "table": "order_lines", "ts": 1790154000000,
                   "sql": "alter table order_lines add column note text"}
            lines.append(message("", None, ddl, partition=0))
    frame = {"database": "shop", "table": "order_lines", "ts": 1790154000, "data": {}}
    lines.insert(0, message("", None, dict(frame, type="bootstrap-start"), partition=0))
    lines.insert(len(BEFORE) + 1, message("", None, dict(frame, type="bootstrap-complete"), partition=0))
    return lines


def canal():
    """Flat messages: the steps of a transaction that do the same are one message; every value is text."""
    def texts(row):
        return {name: str(value) for name, value in source_row(row).items()}

    lines, number = [], 0
    for _, steps in with_old():
        runs = []
        for what, old, new in steps:
            kind = {"insert": "INSERT", "update": "UPDATE", "rekey": "UPDATE", "delete": "DELETE"}[what]
            if runs and runs[-1][0] == kind:
                runs[-1][1].append((old, new))
            else:
                runs.append((kind, [(old, new)]))
        for kind, pairs in runs:
            number += 1
            old = None
            if kind == "UPDATE":
                old = [{n: v for n, v in texts(a).items() if texts(b)[n] != v} for a, b in pairs]
            value = {"data": [texts(b or a) for a, b in pairs], "database": "shop", "es": 1790154000000 + number,
                     "id": number % 7, "isDdl": False, "mysqlType": {"order_id": "varchar(20)"}, "old": old,
                     "pkNames": ["order_id", "line_no"], "sql": "", "sqlType": {"order_id": 12},
                     "table": "order_lines", "ts": 1790154000100 + number, "type": kind}
            lines.append({"partition": 0, "key": None, "value": text(value)})
            if number == 8:
                ddl = dict(value, data=None, old=None, isDdl=True, type="ALTER", sql="alter table order_lines …")
                lines.append({"partition": 0, "key": None, "value": text(ddl)})
                other = dict(value, table="customers", data=[{"id": "1"}], type="INSERT", old=None)
                lines.append({"partition": 0, "key": None, "value": text(other)})
    return lines


def debezium_source(connector):
    """Debezium's envelope with the positions of MySQL or SQL Server; decimals as base64, without a schema."""
    def encoded(cents):
        length = (cents + (cents < 0)).bit_length() // 8 + 1
        return base64.b64encode(cents.to_bytes(length, "big", signed=True)).decode()

    def image(row):
        if row is None:
            return None
        out = {name: value for name, value in row.items() if not name.endswith("_cents")}
        return dict(out, amount=encoded(row["amount_cents"]), cost=encoded(row["cost_cents"]))

    lines = []
    for number, steps in with_old():
        snapshot = number < len(BEFORE)
        for offset, (what, old, new) in enumerate(steps):
            place = {"connector": connector, "name": "shop", "db": "shop", "table": "order_lines",
                     "snapshot": "true" if snapshot else "false"}
            if connector == "mysql":
                at = 154 if snapshot else 154 + (number - len(BEFORE)) * 500
                file = "mysql-bin.000003" if number < 16 else "mysql-bin.000004"
                place.update(server_id=1, gtid=None, file=file, pos=at + 10 * (number == 16), row=offset)
            else:
                commit = 0x758 + (0 if snapshot else number)
                place.update(schema="dbo", commit_lsn=f"00000027:{commit:08x}:0005",
                             change_lsn=None if snapshot else f"00000027:{commit - 1:08x}:{offset + 2:04x}",
                             event_serial_no=None if snapshot else (2 if what == "update" else 1))
            pairs = {"insert": [("r" if snapshot else "c", None, new)], "update": [("u", old, new)],
                     "delete": [("d", old, None)], "rekey": [("d", old, None), ("c", None, new)]}[what]
            for op, before, after in pairs:
                row = after or before
                value = {"before": image(before), "after": image(after), "source": place, "op": op,
                         "ts_ms": 1790154000000 + number, "transaction": None}
                lines.append(message(row["order_id"], key_of(row), value, partition=0))
                if op == "d":
                    lines.append(message(row["order_id"], key_of(row), None, partition=0))
    return lines


def expected():
    rows = final_rows()
    groups = {}
    for row in rows:
        if row["status"] != "paid":
            continue
        group = groups.setdefault((row["order_date"], row["product_id"]),
                                  dict(line_count=0, orders=set(), units=0, gmv_cents=0, cost_cents=0))
        group["line_count"] += 1
        group["orders"].add(row["order_id"])
        group["units"] += row["quantity"]
        group["gmv_cents"] += row["amount_cents"]
        group["cost_cents"] += row["cost_cents"]
    shown = [{"order_date": day, "product_id": product, "line_count": g["line_count"],
              "order_count": len(g["orders"]), "units": g["units"], "gmv_cents": g["gmv_cents"],
              "cost_cents": g["cost_cents"], "profit_cents": g["gmv_cents"] - g["cost_cents"]}
             for (day, product), g in sorted(groups.items())]
    return {"rows": rows, "groups": shown}


if __name__ == "__main__":
    assert len(LONG) > 2000
    for name, lines in [("native", native()), ("upsert", upsert()), ("maxwell", maxwell()), ("canal", canal()),
                        ("debezium_mysql", debezium_source("mysql")),
                        ("debezium_sqlserver", debezium_source("sqlserver"))]:
        write(name, lines)
    (FOLDER / "expected.json").write_text(json.dumps(expected(), ensure_ascii=False, indent=1) + "\n")
