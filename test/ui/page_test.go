package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// view is a view that the test looks at, with a text of its rows.
type view struct{ name, path, text string }

var views = []view{
	{"wrong", "/ui/", "second"},
	{"jobs", "/ui/jobs", "counter"},
	{"allocations", "/ui/allocations", "counter"},
	{"nodes", "/ui/nodes", "ready"},
	{"volumes", "/ui/volumes", "counter"},
	{"plugins", "/ui/plugins", "hostpath"},
	{"topology", "/ui/topology", "alive, leads"},
	{"volume", "/ui/volume?id=counter", "waits here"},
	{"job", "/ui/job?id=second", "counter"},
	{"login", "/ui/login", "Token"},
}

// secondJob writes the example job under another name. It wants the volume that the first one has.
func secondJob(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(examples + "counter.hcl")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "second.hcl")
	other := strings.Replace(string(text), `job "counter"`, `job "second"`, 1)
	err = os.WriteFile(path, []byte(other), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPage_InABrowser runs a cluster of one agent with a volume that one job uses and another one waits for,
// and looks at each view.
func TestPage_InABrowser(t *testing.T) {
	agent := startAgent(t)
	b := openBrowser(t, agent.addr)
	agent.run("job", "run", examples+"hostpath.hcl")
	agent.run("volume", "create", examples+"volume.hcl")
	second := secondJob(t)

	t.Run("live", func(t *testing.T) { follow(t, b, agent) })
	agent.run("job", "run", "-detach", second)
	b.do(chromedp.Navigate(agent.addr + "/ui/volume?id=counter"))
	b.await("the second job waits", shows("waits here"))

	for _, v := range views {
		t.Run(v.name, func(t *testing.T) { lookAt(t, b, agent.addr, v) })
	}
	t.Run("things", func(t *testing.T) { lookAtThings(t, b, agent.addr) })
	t.Run("age", func(t *testing.T) { readOldRows(t, b, agent.addr) })
	t.Run("slow part", func(t *testing.T) { awaitSlowPart(t, b, agent.addr) })
	t.Run("forms", func(t *testing.T) { lookAtForms(t, b, agent.addr) })
	t.Run("log", func(t *testing.T) { readLog(t, b, agent.addr) })
	t.Run("keyboard", func(t *testing.T) { useKeyboard(t, b, agent.addr) })
	t.Run("action", func(t *testing.T) { stopAJob(t, b, agent.addr) })
	t.Run("filter", func(t *testing.T) { filterRows(t, b, agent.addr) })
	t.Run("without the script", func(t *testing.T) { readWithoutScript(t, b, agent.addr) })
}

// lookAt looks at a view in each way: it has its rows, fits the width, has no fault of accessibility, and
// sends no request to another host.
func lookAt(t *testing.T, b *browser, addr string, v view) {
	b.t = t
	b.do(chromedp.Navigate(addr + v.path))
	b.await(v.name, shows(v.text))
	for _, l := range looks {
		b.as(l)
		of := v.name + ", " + l.name
		b.checkAccessibility(of)
		if wide := eval[int](b, "document.documentElement.scrollWidth - window.innerWidth"); wide > 0 {
			t.Errorf("%s: the view is %d pixels wider than the screen", of, wide)
		}
		b.screenshot(v.name + "-" + l.name)
	}
	b.as(looks[0])
	b.checkFaults(v.name)
}

// lookAtThings looks at a node, an allocation and a plugin, by the first link of each list.
func lookAtThings(t *testing.T, b *browser, addr string) {
	b.t = t
	for _, list := range []string{"nodes", "allocations", "plugins"} {
		b.do(chromedp.Navigate(addr + "/ui/" + list))
		b.await(list, "!!document.querySelector('tbody th a')")
		b.click("tbody th a")
		b.await("a view of "+list, "!!document.querySelector('.properties')")
		b.checkLooks("a view of " + list)
		b.checkFaults("a view of " + list)
	}
}

// follow sees a job in a view that was read before there was the job.
func follow(t *testing.T, b *browser, agent berth) {
	b.t = t
	b.do(chromedp.Navigate(agent.addr + "/ui/jobs"))
	b.await("the view is live", "document.getElementById('live').textContent.startsWith('Live')")
	eval[bool](b, "document.notReloaded = true")
	agent.run("job", "run", "-detach", examples+"counter.hcl")
	b.await("the new job is shown", shows("counter")+" && document.notReloaded")
	b.checkFaults("live")

	b.do(chromedp.Navigate(agent.addr + "/ui/volume?id=counter"))
	b.await("all steps are done", "document.querySelectorAll('.step.done').length >= 5")
	b.checkFaults("volume")
}

// fastRefresh makes the timer of a page that reads its rows a hundred times as fast, and counts the reads.
// The browser measures the patience of the test with other timers of the page.
const fastRefresh = `const wait = window.setTimeout;
	window.setTimeout = (f, ms) => wait(f, f.name === "readRows" ? ms / 100 : ms);
	document.reads = 0;
	document.addEventListener("htmx:afterRequest", () => document.reads++);`

// readOldRows sees that a view reads its rows again from time to time, also if none of them changes: how long
// ago something was, and what a node tells of its mounts, change without an event.
func readOldRows(t *testing.T, b *browser, addr string) {
	b.t = t
	added := command(b, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: fastRefresh})
	b.do(chromedp.Navigate(addr + "/ui/plugins"))
	b.await("the rows are read again and again", "document.reads >= 5")
	command(b, page.RemoveScriptToEvaluateOnNewDocument,
		page.RemoveScriptToEvaluateOnNewDocumentParams{Identifier: added.Identifier})
	b.checkFaults("age")
}

// readAgain makes a view read its rows again, and waits for them.
const readAgain = `new Promise(done => {
	document.body.addEventListener("htmx:afterSettle", () => done(true), {once: true});
	htmx.trigger(document.body, "rows-changed");
})`

// useKeyboard reaches the content and a row by the keyboard alone.
func useKeyboard(t *testing.T, b *browser, addr string) {
	b.t = t
	b.do(chromedp.Navigate(addr+"/ui/jobs"), chromedp.KeyEvent(kb.Tab))
	first := eval[string](b, "document.activeElement.textContent")
	if first != "Skip to the content" {
		t.Fatalf("the first stop of the keyboard is %q", first)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("the content has the focus", "document.activeElement.id === 'main'")
	b.tabTo("second")
	// A change in the cluster does not take the focus away.
	eval[bool](b, readAgain)
	if eval[string](b, focused) != "second" {
		t.Error("the row loses the focus when the view is read again")
	}
	b.follow(chromedp.KeyEvent(kb.Enter))
	b.await("the view of the job", "document.querySelector('h1').textContent === 'Job second'")
}

// focused is the text of the element that has the focus of the keyboard.
const focused = "document.activeElement.textContent.trim()"

// tabTo moves the focus to the element with a text.
func (b *browser) tabTo(text string) {
	b.t.Helper()
	for range 60 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if eval[string](b, focused) == text {
			return
		}
	}
	b.t.Fatalf("the keyboard does not reach %q", text)
}

// forms are pages that confirm an action or say a fault, with the status of each.
var forms = []struct {
	path   string
	status int
}{
	{"act?do=drain&id=NODE", 200},
	{"act?do=delete&namespace=default&id=counter&created=CREATED", 200},
	{"act?do=delete&namespace=default&id=counter", 400},                                 // of no row that was seen
	{"act?do=force-detach&namespace=default&id=counter&node=NODE&created=CREATED", 200}, // it asks for a reason
	{"act?do=nosuch&id=x", 400},
	{"nosuch", 404},
}

// lookAtForms looks at forms and faults in each way.
func lookAtForms(t *testing.T, b *browser, addr string) {
	b.t = t
	b.do(chromedp.Navigate(addr + "/ui/nodes"))
	b.await("the node", "!!document.querySelector('tbody th a')")
	node := eval[string](b, `new URLSearchParams(document.querySelector("tbody th a").search).get("id")`)
	b.do(chromedp.Navigate(addr + "/ui/volume?id=counter"))
	link := `document.querySelector('a[href*="do=delete"]')`
	b.await("the link to delete", "!!"+link)
	created := eval[string](b, "new URLSearchParams("+link+`.search).get("created")`)
	shown := strings.NewReplacer("NODE", node, "CREATED", created)
	for _, f := range forms {
		path := shown.Replace(f.path)
		b.do(chromedp.Navigate(addr + "/ui/" + path))
		b.await(path, "!!document.querySelector('main h1')")
		status := eval[int](b, `performance.getEntriesByType("navigation")[0].responseStatus`)
		if status != f.status {
			t.Errorf("%s has the status %d, want %d", path, status, f.status)
		}
		b.checkLooks(path)
		b.forgive(fmt.Sprintf("status of %d", max(f.status, 400)))
		b.checkFaults(path)
	}
}

// awaitSlowPart sees the part of the first view that is read after the others.
func awaitSlowPart(t *testing.T, b *browser, addr string) {
	b.t = t
	b.do(chromedp.Navigate(addr + "/ui/"))
	b.await("the volumes", "document.querySelector('#slow .problem-list')")
	b.checkLooks("slow part")
	b.checkFaults("slow part")
}

// clickLink clicks the first link with a text.
func (b *browser) clickLink(text string) {
	b.t.Helper()
	b.follow(chromedp.Evaluate[chromedp.Void](
		`[...document.querySelectorAll("a")].find(a => a.textContent === "` + text + `").click()`))
}

// readLog follows the log of a task.
func readLog(t *testing.T, b *browser, addr string) {
	b.t = t
	b.do(chromedp.Navigate(addr + "/ui/allocations?search=counter"))
	b.click("tbody th a")
	b.clickLink("Log of counter")
	b.await("the log is followed", "document.getElementById('log-state').textContent.startsWith('Live')")
	const length = "document.getElementById('log').textContent.length"
	before := eval[int](b, length)
	b.await("the log grows", fmt.Sprintf("%s > %d", length, before))
	b.checkLooks("log")
	b.screenshot("log-light")
	b.checkFaults("log")
}

// stopAJob stops a job by its view and the page that confirms it, which has no fault of accessibility either.
// It uses the keyboard alone.
func stopAJob(t *testing.T, b *browser, addr string) {
	b.t = t
	b.do(chromedp.Navigate(addr + "/ui/job?id=second"))
	b.tabTo("Stop")
	b.follow(chromedp.KeyEvent(kb.Enter))
	b.await("the page that confirms it", "!!document.querySelector('button.act')")
	b.checkLooks("confirmation")
	b.screenshot("confirmation-light")
	b.tabTo(eval[string](b, "document.querySelector('button.act').textContent.trim()"))
	b.follow(chromedp.KeyEvent(kb.Enter))
	b.await("the job is stopped", "document.querySelector('.properties').innerText.includes('dead')")
	b.checkFaults("action")
}

// filterRows uses the form of a list.
func filterRows(t *testing.T, b *browser, addr string) {
	b.t = t
	b.do(chromedp.Navigate(addr + "/ui/jobs"))
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=search]"), "second"))
	// A change in the cluster does not take the text away.
	eval[bool](b, readAgain)
	b.click(".filters button")
	b.await("the rows of the search", shows("second")+" && !"+shows("hostpath"))
	b.checkFaults("filter")
}

// readWithoutScript reads a view in a browser that runs no script.
func readWithoutScript(t *testing.T, b *browser, addr string) {
	b.t = t
	b.withoutScript(true)
	defer b.withoutScript(false)
	b.do(chromedp.Navigate(addr + "/ui/volumes"))
	b.click("tbody a")
	b.do(chromedp.WaitVisible(chromedp.CSS("ol.chains")))
}
