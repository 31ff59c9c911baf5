"use strict";
// The log of a task and commands in it. The text of a task is only ever set as text.
(function () {
	const most = 1 << 20; // characters that a view keeps

	// append adds text at the end, and keeps the end in sight if it was.
	function append(output, text) {
		const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 8;
		output.textContent = (output.textContent + text).slice(-most);
		if (atEnd) {
			output.scrollTop = output.scrollHeight;
		}
	}

	const log = document.getElementById("log");
	if (log) {
		follow(log, document.getElementById("log-state"));
	}

	async function follow(output, state) {
		try {
			const answer = await fetch(output.dataset.stream);
			if (!answer.ok) {
				state.textContent = "The log is not followed: " + await answer.text();
				return;
			}
			state.textContent = "Live: the view follows the log.";
			output.textContent = "";
			const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
			for (;;) {
				const part = await reader.read();
				if (part.done) {
					break;
				}
				append(output, part.value);
			}
			state.textContent = "The log has ended.";
		} catch (fault) {
			state.textContent = "Not live: the agent does not answer. Load the view again.";
		}
	}

	const exec = document.getElementById("exec");
	if (exec) {
		runCommands(exec);
	}

	function runCommands(form) {
		const output = document.getElementById("exec-output");
		const state = document.getElementById("exec-state");
		const text = document.getElementById("exec-text");
		let socket = null;

		function send(input) {
			if (socket && socket.readyState === WebSocket.OPEN) {
				socket.send(JSON.stringify(input));
			}
		}

		form.addEventListener("submit", function (event) {
			event.preventDefault();
			if (socket) {
				socket.close();
			}
			const line = document.getElementById("exec-line").value;
			const to = new URL(form.dataset.socket + "&line=" + encodeURIComponent(line), location.href);
			to.protocol = to.protocol === "https:" ? "wss:" : "ws:";
			run(to, line);
		});

		function run(to, line) {
			const mine = new WebSocket(to);
			const decoders = {stdout: new TextDecoder(), stderr: new TextDecoder()};
			socket = mine;
			let ended = false;
			output.textContent = "";
			state.textContent = "Connecting.";
			mine.onopen = function () {
				state.textContent = "The command runs: " + line;
				text.focus();
			};
			mine.onmessage = function (event) {
				const message = JSON.parse(event.data);
				for (const name of ["stdout", "stderr"]) {
					if (message[name] && message[name].data) {
						const bytes = Uint8Array.from(atob(message[name].data), c => c.charCodeAt(0));
						append(output, decoders[name].decode(bytes, {stream: true}));
					}
				}
				if (message.exited) {
					ended = true;
					const result = message.result || {};
					state.textContent = "The command has ended with the exit code " + (result.exit_code || 0) + ".";
				}
			};
			mine.onclose = function (event) {
				if (!ended && socket === mine) {
					state.textContent = "The command has ended, or could not run. " + event.reason;
				}
			};
			// The message without a field shows that the user is there.
			const alive = setInterval(function () {
				if (mine.readyState !== WebSocket.OPEN) {
					clearInterval(alive);
					return;
				}
				mine.send("{}");
			}, 10000);
		}

		document.getElementById("exec-input").addEventListener("submit", function (event) {
			event.preventDefault();
			const bytes = new TextEncoder().encode(text.value + "\n");
			send({stdin: {data: btoa(String.fromCharCode(...bytes))}});
			text.value = "";
		});
		document.getElementById("exec-end").addEventListener("click", function () {
			send({stdin: {close: true}});
		});
	}
})();
