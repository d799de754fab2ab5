"""Gives QEMU a command by its monitor: `qmp.py SOCKET COMMAND [NAME=VALUE]...`; `true` and `false` are no texts. Prints the answer.
`qmp.py SOCKET events NAME...` prints name and time of each such event, s since 1970, until QEMU ends."""
import json
import socket
import sys

where, command, *arguments = sys.argv[1:]
words = {"true": True, "false": False}
monitor = socket.socket(socket.AF_UNIX)
monitor.settimeout(20)
monitor.connect(where)
answers = monitor.makefile("r")


def ask(execute, arguments):
    monitor.sendall(json.dumps({"execute": execute, "arguments": arguments}).encode())
    for line in answers:
        answer = json.loads(line)
        if "return" in answer or "error" in answer:
            return answer
    return {"error": "closed"}


ask("qmp_capabilities", {})
if command == "events":
    monitor.settimeout(None)
    for line in answers:
        event = json.loads(line)
        if event.get("event") in arguments:
            print(event["event"], event["timestamp"]["seconds"] + event["timestamp"]["microseconds"] / 1e6, flush=True)
    sys.exit()
arguments = {name: words.get(value, value) for name, value in (argument.split("=", 1) for argument in arguments)}
answer = ask(command, arguments)
print(json.dumps(answer))
sys.exit("error" in answer)
