package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestSite_FindsTheAnswerOfWhy searches the site of the documentation for the words of an answer of `berth
// job why`. The page that it finds has the next step. It skips the test without MkDocs.
func TestSite_FindsTheAnswerOfWhy(t *testing.T) {
	t.Parallel()
	generator, err := exec.LookPath("mkdocs")
	if err != nil {
		t.Skip("needs MkDocs: make setup-all")
	}
	out := filepath.Join(t.TempDir(), "site")
	prepare := exec.CommandContext(t.Context(), "go", "run", "./test/site", "-out", out)
	prepare.Dir = filepath.Join("..", "..")
	build := exec.CommandContext(t.Context(), generator, "build", "--quiet", "--strict")
	build.Dir = out
	for _, cmd := range []*exec.Cmd{prepare, build} {
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, text)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(out, "site"))))
	t.Cleanup(server.Close)

	const (
		button = `[data-target="#mkdocs_search_modal"]`
		field  = `#mkdocs-search-query`
		found  = `#mkdocs-search-results a[href*="why/no-memory-left.html"]`
	)
	visible := func(selector string) string {
		return fmt.Sprintf("document.querySelector(%q)?.offsetParent != null", selector)
	}
	b := openBrowser(t, server.URL)
	b.follow(chromedp.Navigate(server.URL + "/index.html"))
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).click()", button)))
	b.await("the dialog of the search", visible(field))
	b.do(chromedp.SendKeys(chromedp.CSS(field), "memory exhausted"))
	// The search begins once its index is read, with the next key.
	b.await("the page of the state is found", fmt.Sprintf(
		"(document.querySelector(%q).dispatchEvent(new Event('keyup')), %s)", field, visible(found)))
	b.click(found)
	page := eval[string](b, `document.querySelector('[role=main]').innerText`)
	if !strings.Contains(page, "ask for less in the resources block") {
		t.Errorf("the page that was found says\n%s", page)
	}
	b.checkFaults("the site")
}
