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

	function tell(text) {
		if (live.textContent !== text) {
			live.textContent = text;
		}
	}

	function refresh() {
		htmx.trigger(document.body, "rows-changed");
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
