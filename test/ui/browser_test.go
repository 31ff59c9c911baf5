package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a Chromium with one tab.
type browser struct {
	t   *testing.T
	ctx context.Context
	axe string // the script that finds faults of accessibility

	mu     sync.Mutex
	faults []string // requests to other hosts, and all that the browser reports as an error
}

// openBrowser starts Chromium until the test ends. own are the addresses to which the page may send requests.
// It skips the test without Chromium or axe-core (AXE is the path of its script).
func openBrowser(t *testing.T, own ...string) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs Chromium: make setup-all")
	}
	if os.Getenv("AXE") == "" {
		t.Skip("needs axe-core: AXE=$(scripts/axe.sh)")
	}
	script, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		t.Fatal(err)
	}

	// The browser leaves its sockets there. It may still write at its end, so an error does not matter.
	scratch, err := os.MkdirTemp("", "berth-browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(scratch) })
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.Env("TMPDIR="+scratch),
		chromedp.NoSandbox, // the tests run as root
		chromedp.WSURLReadTimeout(patience),
	)
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &browser{t: t, ctx: ctx, axe: string(script)}
	err = chromedp.Listen(ctx, func(event any) { b.watch(event, own) })
	if err != nil {
		t.Fatal(err)
	}
	command(b, network.Enable, network.EnableParams{})
	command(b, log.Enable, cdp.Empty{})
	command(b, runtime.Enable, cdp.Empty{})
	return b
}

// watch notes what the page must not do.
func (b *browser) watch(event any, own []string) {
	fault := ""
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		to := e.Request.URL
		if !slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(to, o+"/") }) &&
			!strings.HasPrefix(to, "data:") {
			fault = "it sends a request to " + to
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			fault = "the browser reports: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *runtime.EventExceptionThrown:
		fault = "its script failed: " + e.ExceptionDetails.Text
	}
	if fault != "" {
		b.mu.Lock()
		b.faults = append(b.faults, fault)
		b.mu.Unlock()
	}
}

// checkFaults reports what the page did and must not do.
func (b *browser) checkFaults(of string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, fault := range b.faults {
		b.t.Errorf("%s: %s", of, fault)
	}
	b.faults = nil
}

// forgive forgets faults with a text: the browser reports each answer with the status of an error as one.
func (b *browser) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = slices.DeleteFunc(b.faults, func(f string) bool { return strings.Contains(f, text) })
}

// do runs actions in the tab.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	err := chromedp.Do(b.ctx, actions...)
	if err != nil {
		b.t.Fatal(err)
	}
}

// follow runs actions that lead to another page, and waits for it.
func (b *browser) follow(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	_, err := chromedp.RunResponse(b.ctx, actions...)
	if err != nil {
		b.t.Fatal(err)
	}
}

// click clicks an element that leads to another page. The script of the page finds it: a live view may
// replace its elements between two commands to the browser.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.follow(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).click()", selector)))
}

// command sends a command to the browser.
func command[P, R any](b *browser, c cdp.Command[P, R], params P) (result R) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) (err error) {
		result, err = cdp.Call(ctx, t, c, params)
		return err
	}))
	return result
}

// eval returns the value of an expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	var value T
	err := onOnePage(func() (err error) {
		value, err = chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// onOnePage calls do again if the page was replaced meanwhile: a link that was followed may load it later.
func onOnePage(do func() error) error {
	for limit := time.Now().Add(patience); ; {
		err := do()
		replaced := err != nil && (strings.Contains(err.Error(), "Cannot find context") ||
			strings.Contains(err.Error(), "context was destroyed") ||
			strings.Contains(err.Error(), "target navigated"))
		if !replaced || time.Now().After(limit) {
			return err
		}
	}
}

// look is a way to look at a view.
type look struct {
	name   string
	width  int64
	height int64
	scheme string // light or dark
	mobile bool
}

var looks = []look{
	{"light", 1280, 800, "light", false},
	{"dark", 1280, 800, "dark", false},
	{"phone", 390, 844, "light", true},
}

// as makes the browser look at a view in a way.
func (b *browser) as(l look) {
	b.t.Helper()
	command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width:             l.width,
		Height:            l.height,
		DeviceScaleFactor: 1,
		Mobile:            l.mobile,
	})
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}},
	})
}

// checkAccessibility reports the violations that axe-core finds in the view.
func (b *browser) checkAccessibility(of string) {
	b.t.Helper()
	eval[bool](b, b.axe+"; true")
	found := eval[string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(
		r.violations.map(v => v.id + ": " + v.help + " at " + v.nodes.map(n => n.target.join(" ")).join(", "))))`)
	var violations []string
	err := json.Unmarshal([]byte(found), &violations)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, v := range violations {
		b.t.Errorf("%s: %s", of, v)
	}
}

// checkLooks reports the violations in the view in each way to look at it.
func (b *browser) checkLooks(of string) {
	b.t.Helper()
	for _, l := range looks {
		b.as(l)
		b.checkAccessibility(of + ", " + l.name)
	}
	b.as(looks[0])
}

// screenshot keeps a picture of the whole view.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.MkdirAll("screenshots", 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join("screenshots", name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// await waits until an expression is true.
func (b *browser) await(what, expression string) {
	b.t.Helper()
	poll := chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(patience))
	err := onOnePage(func() error { return chromedp.Do(b.ctx, poll) })
	if err != nil {
		text := eval[string](b, "document.body.innerText")
		b.t.Fatalf("%s: %v; the page shows\n%s", what, err, text)
	}
}

// shows returns an expression that is true when the rows of the view have a text.
func shows(text string) string {
	return fmt.Sprintf("document.getElementById('rows').innerText.includes(%q)", text)
}

// withoutScript turns the scripts of pages off.
func (b *browser) withoutScript(off bool) {
	b.t.Helper()
	command(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
}
