"use strict";
// The terminal of a command in a task. The text of a task can do nothing but draw in it.
(function () {
	const exec = document.getElementById("exec");
	const state = document.getElementById("exec-state");
	const place = document.getElementById("terminal");
	const line = document.getElementById("exec-line");
	const partOfInput = 8192; // bytes in a message: the agent closes the websocket after a large one
	const mostWaiting = 1 << 20; // bytes of input that wait for a command that reads none
	const mostSpoken = 20000; // characters for a screen reader at a time
	// Marks that are drawn on the character before them. A long pile of them would stop the browser.
	const pile = /([\p{M}\p{Cf}\u1160-\u11ff]{16})[\p{M}\p{Cf}\u1160-\u11ff]+/gu;
	const lastMarks = /[\p{M}\p{Cf}\u1160-\u11ff]{0,16}$/u;

	// xterm.js makes <style> elements and style attributes, and the policy of the page allows neither. The same
	// rules are allowed as objects, which text of a page cannot make. So they become objects here.
	const create = document.createElement;
	document.createElement = function (name, options) {
		if (name !== "style") {
			return create.call(document, name, options);
		}
		const sheet = new CSSStyleSheet();
		document.adoptedStyleSheets.push(sheet);
		const inPlace = create.call(document, "span");
		inPlace.hidden = true;
		Object.defineProperty(inPlace, "textContent", {set: rules => sheet.replaceSync(rules)});
		return inPlace;
	};
	HTMLSpanElement.prototype.setAttribute = function (name, value) {
		if (name === "style") {
			this.style.cssText = value;
		} else {
			Element.prototype.setAttribute.call(this, name, value);
		}
	};

	// theme has the colours of the page. xterm.js gives the others the contrast that they need.
	function theme() {
		const page = getComputedStyle(document.documentElement);
		const text = page.getPropertyValue("--text");
		const ground = page.getPropertyValue("--ground");
		return {
			background: ground,
			foreground: text,
			cursor: text,
			cursorAccent: ground,
			selectionBackground: page.getPropertyValue("--link"),
			selectionForeground: ground,
		};
	}

	const terminal = new Terminal({
		fontFamily: "ui-monospace, monospace",
		fontSize: 14,
		logLevel: "off",
		minimumContrastRatio: 4.5,
		screenReaderMode: true,
		scrollback: 5000,
		theme: theme(),
	});
	// The sequences that do more than draw have no effect: titles, colours of the whole terminal, questions for
	// them, and links, which could lead anywhere.
	for (const command of [0, 1, 2, 4, 8, 10, 11, 12, 104, 110, 111, 112]) {
		terminal.parser.registerOscHandler(command, () => true);
	}
	// xterm.js repeats these as often as it is told, up to two thousand million times.
	for (const repeated of "bILMSTZ") {
		terminal.parser.registerCsiHandler({final: repeated}, function (counts) {
			return counts[0] > Math.max(terminal.rows, terminal.cols);
		});
	}
	const fit = new FitAddon.FitAddon();
	terminal.loadAddon(fit);
	terminal.open(place);
	terminal.textarea.setAttribute("aria-label", "Input of the terminal. Control, Shift and L leave it.");
	new ResizeObserver(() => fit.fit()).observe(place);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
		terminal.options.theme = theme();
	});

	let socket = null;
	const isOpen = () => socket !== null && socket.readyState === WebSocket.OPEN;

	function send(message) {
		if (isOpen() && socket.bufferedAmount < mostWaiting) {
			socket.send(JSON.stringify(message));
		}
	}

	function sendInput(bytes) {
		for (let at = 0; at < bytes.length; at += partOfInput) {
			send({stdin: {data: btoa(String.fromCharCode(...bytes.subarray(at, at + partOfInput)))}});
		}
	}

	function sendSize() {
		send({tty_size: {height: terminal.rows, width: terminal.cols}});
	}

	const encoder = new TextEncoder();
	terminal.onData(text => sendInput(encoder.encode(text)));
	terminal.onBinary(text => sendInput(Uint8Array.from(text, c => c.charCodeAt(0))));
	terminal.onResize(sendSize);
	// The keys are those of the page while no command runs. A terminal cannot tell Ctrl+Shift+L from Ctrl+L, so no
	// program misses it.
	terminal.attachCustomKeyEventHandler(function (event) {
		const leaves = event.ctrlKey && event.shiftKey && event.code === "KeyL";
		if (leaves) {
			event.preventDefault();
			line.focus();
		}
		return isOpen() && !leaves;
	});

	// draw draws output at once: the next message waits for it. So output that comes faster than it is drawn
	// waits in the task, and not in the memory of the browser.
	function draw(text) {
		const all = (marks + text).replace(pile, "$1");
		terminal._core.writeSync(all.slice(marks.length));
		marks = all.match(lastMarks)[0];
	}
	let marks = ""; // at the end of what is drawn: the pile may go on in the next message

	// xterm.js bounds the lines that a screen reader speaks at a time, but not their length.
	const spoken = place.querySelector(".live-region");
	new MutationObserver(function () {
		if (spoken.textContent.length > mostSpoken) {
			spoken.textContent = "";
		}
	}).observe(spoken, {childList: true});

	exec.addEventListener("submit", function (event) {
		event.preventDefault();
		if (socket) {
			socket.close();
		}
		const to = new URL(exec.dataset.socket + "&line=" + encodeURIComponent(line.value), location.href);
		to.protocol = to.protocol === "https:" ? "wss:" : "ws:";
		run(to, line.value);
	});

	function run(to, command) {
		const mine = new WebSocket(to);
		const decoder = new TextDecoder();
		socket = mine;
		let ended = false;
		terminal.reset();
		state.textContent = "Connecting.";
		mine.onopen = function () {
			state.textContent = "The command runs: " + command;
			sendSize();
			terminal.focus();
		};
		mine.onmessage = function (event) {
			if (socket !== mine) {
				return;
			}
			const message = JSON.parse(event.data);
			const output = message.stdout;
			if (output && output.data) {
				const bytes = Uint8Array.from(atob(output.data), c => c.charCodeAt(0));
				draw(decoder.decode(bytes, {stream: true}));
			}
			if (message.exited) {
				ended = true;
				const result = message.result || {};
				state.textContent = "The command has ended with the exit code " + (result.exit_code || 0) + ".";
			}
			if (!output && !message.exited) {
				mine.send("{}"); // the agent asks whether the user is there
			}
		};
		mine.onclose = function (event) {
			if (!ended && socket === mine) {
				state.textContent = "The command has ended, or could not run. " + event.reason;
			}
		};
	}
})();
