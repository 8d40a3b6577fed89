"""The order history that every format tells: nine rows that were there before, then what happened to them.

Prints it as SQL (`history.py sql-before`, `history.py sql-after`) for a real database, and is imported by `make.py`.
A step is (what, key, row): insert, update, delete, or rekey, whose row has another key. Steps of one list are one
transaction of the source.
"""

import sys

COLUMNS = ["order_id", "line_no", "order_date", "product_id", "customer_id", "channel", "quantity", "amount",
           "cost", "status"]

# Longer than a page's share of a row: PostgreSQL keeps it apart, and does not send it with an update that leaves it.
LONG = "sales " + "".join(chr(97 + (i * i * 7 + i // 3) % 26) for i in range(2400))


def row(order_id, line_no, day, product, customer, quantity, cents, cost, status="paid", channel="sales"):
    return {"order_id": order_id, "line_no": line_no, "order_date": day, "product_id": product,
            "customer_id": customer, "channel": channel, "quantity": quantity, "amount_cents": cents,
            "cost_cents": cost, "status": status}


BEFORE = [
    row("O1001", 1, "2026-09-21", "P100", "C001", 2, 16000, 9000),
    row("O1001", 2, "2026-09-21", "P200", "C001", 1, 5000, 2500),
    row("O1002", 1, "2026-09-21", "P100", "C002", 1, 8000, 4500),
    row("O1003", 1, "2026-09-22", "P300", "C001", 3, 4500, 1800),
    row("O1004", 1, "2026-09-22", "P200", "C003", 2, 10000, 5000, status="cancelled"),
    row("O1005", 1, "2026-09-22", "P100", "C002", 1, 8000, 4500),
    row("O1006", 1, "2026-09-22", "P300", "C004", 1, 1500, 600),
    row("O1007", 1, "2026-09-23", "P200", "C003", 1, 5000, 2500, channel=LONG),
    row("O1008", 1, "2026-09-23", "P100", "C005", 4, 32000, 18000),
]

AFTER = [
    # A new order of two lines, one transaction.
    [("insert", None, row("O1009", 1, "2026-09-23", "P300", "C001", 2, 3001, 1200)),
     ("insert", None, row("O1009", 2, "2026-09-23", "P100", "C001", 1, -1, 0))],
    # A correction within its group, then a move to another day, then to another product.
    [("update", ("O1002", 1), row("O1002", 1, "2026-09-21", "P100", "C002", 3, 24000, 13500))],
    [("update", ("O1002", 1), row("O1002", 1, "2026-09-24", "P100", "C002", 3, 24000, 13500))],
    [("update", ("O1002", 1), row("O1002", 1, "2026-09-24", "P200", "C002", 3, 24000, 13500))],
    # An order paid after all; one given back.
    [("update", ("O1004", 1), row("O1004", 1, "2026-09-22", "P200", "C003", 2, 10000, 5000))],
    [("update", ("O1006", 1), row("O1006", 1, "2026-09-22", "P300", "C004", 1, 1500, 600, status="refunded"))],
    # Gone, and back under the same key with another content.
    [("delete", ("O1003", 1), None)],
    [("insert", None, row("O1003", 1, "2026-09-25", "P300", "C001", 1, 1500, 600))],
    # Gone for good.
    [("delete", ("O1005", 1), None)],
    # The key itself changes.
    [("rekey", ("O1001", 2), row("O1001", 7, "2026-09-21", "P200", "C001", 1, 5000, 2500))],
    # A long text that the update leaves as it is.
    [("update", ("O1007", 1), row("O1007", 1, "2026-09-23", "P200", "C003", 5, 25000, 12500, channel=LONG))],
    # The same row three times in one transaction.
    [("update", ("O1008", 1), row("O1008", 1, "2026-09-23", "P100", "C005", 3, 24000, 13500)),
     ("update", ("O1008", 1), row("O1008", 1, "2026-09-23", "P400", "C005", 3, 24000, 13500)),
     ("update", ("O1008", 1), row("O1008", 1, "2026-09-23", "P400", "C005", 2, 16000, 9000))],
    # A large amount, beyond what a double holds in cents.
    [("insert", None, row("O1010", 1, "2026-09-26", "P500", "C006", 1, 9007199254740993, 1))],
    # A refund, a line of no value, and texts that are hard to quote.
    [("insert", None, row("O1010", 2, "2026-09-26", "P500", "C006", -1, -1001, -500)),
     ("insert", None, row("O1010", 3, "2026-09-26", "P5%:00", "C'6\\", 1, 0, 0, channel="caf\u00e9 \"\U0001f600\""))],
]


def final_rows():
    """What is left, by key."""
    rows = {(r["order_id"], r["line_no"]): r for r in BEFORE}
    for transaction in AFTER:
        for _, key, new in transaction:
            if key is not None:
                del rows[key]
            if new is not None:
                rows[(new["order_id"], new["line_no"])] = new
    return [rows[key] for key in sorted(rows)]


def money(cents):
    """Cents as a decimal text with two places."""
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def sql_values(new):
    values = dict(new, amount=money(new["amount_cents"]), cost=money(new["cost_cents"]))
    quoted = {name: values[name] if isinstance(values[name], int) else "'" + values[name].replace("'", "''") + "'"
              for name in COLUMNS}
    return quoted


def sql(step):
    what, key, new = step
    where = f"WHERE order_id = '{key[0]}' AND line_no = {key[1]}" if key else ""
    if what == "insert":
        values = sql_values(new)
        return f"INSERT INTO order_lines ({', '.join(values)}) VALUES ({', '.join(map(str, values.values()))});"
    if what == "delete":
        return f"DELETE FROM order_lines {where};"
    # An update sets what it changes, as an application does.
    changed = {name: value for name, value in sql_values(new).items() if name != "channel"}
    return f"UPDATE order_lines SET {', '.join(f'{n} = {v}' for n, v in changed.items())} {where};"


if __name__ == "__main__":
    if sys.argv[1] == "sql-before":
        for new in BEFORE:
            print(sql(("insert", None, new)))
    else:
        for transaction in AFTER:
            print("BEGIN;", *map(sql, transaction), "COMMIT;", sep="\n")
