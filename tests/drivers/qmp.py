"""Gives QEMU a command by its monitor: `qmp.py SOCKET COMMAND [NAME=VALUE]...`; `true` and `false` are no texts. Prints the answer."""
import json
import socket
import sys

where, command, *arguments = sys.argv[1:]
words = {"true": True, "false": False}
arguments = {name: words.get(value, value) for name, value in (argument.split("=", 1) for argument in arguments)}
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
answer = ask(command, arguments)
print(json.dumps(answer))
sys.exit("error" in answer)
