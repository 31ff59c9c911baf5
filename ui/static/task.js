"use strict";
// The log of a task. The text of a task is only ever set as text.
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
})();
