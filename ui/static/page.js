"use strict";
// Each view works without this script. With it, a view reads its rows again when rows of its topics have
// changed. The stream is closed while nobody sees the page: a browser has few connections to one host.
(function () {
	const live = document.getElementById("live");
	if (!live) {
		return;
	}

	const address = "/ui/live?" + new URLSearchParams({
		topics: live.dataset.topics,
		namespace: live.dataset.namespace,
	});
	let source = null;
	let again = 0;
	let old = 0;

	function tell(text) {
		if (live.textContent !== text) {
			live.textContent = text;
		}
	}

	// A part that takes long is read again after ten times as long, at most half a minute, so that an open view
	// keeps no server busy.
	let slowAt = 0;
	let slowTimer = 0;
	let began = 0;
	document.body.addEventListener("htmx:beforeRequest", function (event) {
		if (event.target.id === "slow") {
			began = Date.now();
		}
	});
	document.body.addEventListener("htmx:afterRequest", function (event) {
		if (event.target.id === "slow") {
			slowAt = Date.now() + Math.min(10 * (Date.now() - began), 30000);
		}
	});

	// Ages, and what the nodes tell of mounts, change without an event. So a view reads its rows again after
	// half a minute without one, but not the part that takes long.
	function readRows() {
		clearTimeout(old);
		old = setTimeout(readRows, 30000);
		htmx.trigger(document.body, "rows-changed");
	}

	function refresh() {
		readRows();
		if (!slowTimer) {
			slowTimer = setTimeout(function () {
				slowTimer = 0;
				htmx.trigger(document.body, "slow-changed");
			}, Math.max(0, slowAt - Date.now()));
		}
	}

	function open() {
		close();
		source = new EventSource(address);
		source.onopen = function () {
			tell("Live: the view follows the cluster.");
			refresh();
		};
		source.addEventListener("changed", refresh);
		source.onerror = function () {
			tell("Not live: the agent does not answer. The rows may be old.");
			// The browser tries again by itself, unless the answer was an error.
			if (source.readyState === EventSource.CLOSED) {
				again = setTimeout(open, 10000);
			}
		};
	}

	function close() {
		clearTimeout(again);
		clearTimeout(old);
		if (source) {
			source.close();
			source = null;
		}
	}

	document.addEventListener("visibilitychange", function () {
		if (document.hidden) {
			close();
		} else {
			open();
		}
	});
	document.body.addEventListener("htmx:responseError", function (event) {
		tell("Not live: the view answers with an error (" + event.detail.xhr.status + "). The rows are old.");
	});
	if (!document.hidden) {
		open();
	}
})();
