package ui

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// fixtureDir is the directory of the program that buildFixture builds, "" before.
var fixtureDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if fixtureDir != "" {
		_ = os.RemoveAll(fixtureDir)
	}
	os.Exit(code)
}

// fixture builds the program once. Its output is that of the compiler after a fault.
var fixture = sync.OnceValues(func() (output string, err error) {
	fixtureDir, err = os.MkdirTemp("", "pagefixture")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-C", "../..", "-tags", "hashicorpmetrics,grpcnotrace",
		"-o", filepath.Join(fixtureDir, "pagefixture"), "./test/pagefixture")
	out, err := build.CombinedOutput()
	return string(out), err
})

// buildFixture builds the program with the parts of berth that these tests need, and returns its path.
func buildFixture(t *testing.T) (path string) {
	t.Helper()
	out, err := fixture()
	if err != nil {
		t.Fatalf("building test/pagefixture: %v\n%s", err, out)
	}
	return filepath.Join(fixtureDir, "pagefixture")
}

// serveRows serves the page of a cluster with n rows of each kind until the test ends.
func serveRows(t *testing.T, fixture string, n int) (addr string) {
	t.Helper()
	return runFixture(t, 1, fixture, "rows", fmt.Sprint(n))[0]
}

// runFixture runs the program until the test ends, and returns the lines with which it begins.
func runFixture(t *testing.T, lines int, fixture string, args ...string) (begin []string) {
	t.Helper()
	cmd := exec.Command(fixture, args...)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close() // the program ends
		err := cmd.Wait()
		if err != nil {
			t.Errorf("%v ended with %v", cmd, err)
		}
	})
	for output := bufio.NewScanner(out); len(begin) < lines; begin = append(begin, output.Text()) {
		if !output.Scan() {
			t.Fatalf("%v has ended: %v", cmd, output.Err())
		}
	}
	return begin
}

// firstPaint waits for the first paint of the view and returns its time in milliseconds. A browser without an
// entry of it has not drawn any content.
const firstPaint = `new Promise(done => {
	new PerformanceObserver(list => {
		const entry = list.getEntriesByName("first-contentful-paint")[0];
		if (entry) { done(entry.startTime); }
	}).observe({type: "paint", buffered: true});
})`

// The most elements of a view, and the rows of its tables: a page of a list has 50 rows, and the topology has
// tiles in place of rows.
const (
	mostElements = 3000
	rowsOfPage   = 50
)

// bigView is a view of the navigation, with the rows that it has of ten and of very many.
type bigView struct {
	name, path string
	few, many  int
}

// The first view has at most 20 problems of each kind. See wrongKinds.
var bigViews = []bigView{
	{"wrong", "/ui/", 7, 78},
	{"jobs", "/ui/jobs", 10, rowsOfPage},
	{"allocations", "/ui/allocations", 11, rowsOfPage},
	{"nodes", "/ui/nodes", 10, rowsOfPage},
	{"volumes", "/ui/volumes", 10, rowsOfPage},
	{"plugins", "/ui/plugins", 10, rowsOfPage},
	{"topology", "/ui/topology", 0, 0},
}

// wrongKinds are the problems of each kind that the first view shows of ten rows and of very many. Many
// volumes are in the hands of lost nodes, and as many others have claims that wait.
var wrongKinds = map[string]struct{ few, many int }{
	"node":       {1, 20},
	"plugin":     {4, 20},
	"job":        {1, 20},
	"deployment": {1, 18}, // of the newest 200
	"volume":     {1, 40},
	"allocation": {1, 20},
}

// TestPage_PaintsManyRows opens each view of a cluster with 10 and with 100,000 volumes, jobs and
// allocations, a tenth of which is wrong. Each one has a page of rows and few elements, however many rows
// there are. The times of the first paint are in the log, and the pictures in the directory screenshots.
func TestPage_PaintsManyRows(t *testing.T) {
	b := openBrowser(t, "http://127.0.0.1")
	fixture := buildFixture(t)
	for _, n := range []int{10, 100000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			addr := serveRows(t, fixture, n)
			for _, v := range bigViews {
				paint(t, b, addr, v, n)
			}
			b.do(chromedp.Navigate("about:blank")) // its streams end
		})
	}
}

func paint(t *testing.T, b *browser, addr string, v bigView, n int) {
	b.t = t
	b.as(looks[0])
	b.do(chromedp.Navigate(addr + v.path))
	at := eval[float64](b, firstPaint)
	b.await(v.name+" is drawn", "document.getElementById('rows') !== null")
	elements := eval[int](b, "document.querySelectorAll('*').length")
	t.Logf("%s with %d rows of each kind: first paint after %.0f ms, %d elements", v.name, n, at, elements)
	if elements > mostElements {
		t.Errorf("%s has %d elements, want at most %d", v.name, elements, mostElements)
	}

	want := v.few
	if n > 10 {
		want = v.many
	}
	if rows := eval[int](b, "document.querySelectorAll('#rows tbody tr').length"); rows != want {
		t.Errorf("%s with %d rows of each kind shows %d rows, want %d", v.name, n, rows, want)
	}
	next := eval[bool](b, "document.getElementById('next-page') !== null")
	if next != (want == rowsOfPage) {
		t.Errorf("%s with %d rows of each kind: the link to the next page is there: %v", v.name, n, next)
	}
	if fault := eval[string](b, "document.querySelector('#rows .fault')?.innerText ?? ''"); fault != "" {
		t.Errorf("%s shows a fault: %s", v.name, fault)
	}
	if v.path == "/ui/" {
		countProblems(t, b, n)
	}
	b.screenshot(fmt.Sprintf("rows-%d-%s", n, v.name))
}

// countProblems waits for the second part of the first view, which comes after the first paint, and counts
// the problems of each kind in both parts.
func countProblems(t *testing.T, b *browser, n int) {
	b.await("the second part", "document.querySelector('#slow .problem-list') !== null")
	for kind, of := range wrongKinds {
		want := of.few
		if n > 10 {
			want = of.many
		}
		found := eval[int](b, fmt.Sprintf(`[...document.querySelectorAll(".problem-list tbody tr")].filter(
			row => row.cells[0].innerText === %q).length`, kind))
		if found != want {
			t.Errorf("with %d rows of each kind, there are %d problems of the kind %s, want %d", n, found, kind, want)
		}
	}
}
