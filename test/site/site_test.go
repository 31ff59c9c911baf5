package main

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/test/kit"
)

// build prepares the site of this repository, and lets the generator make it. It returns the folder.
func build(t *testing.T) string {
	t.Helper()
	generator, err := exec.LookPath("mkdocs")
	if err != nil {
		kit.SkipLacking(t, "mkdocs: make setup-all")
	}
	out := filepath.Join(t.TempDir(), "site")
	s := &site{repo: "../..", out: out}
	err = s.write()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), generator, "build", "--quiet", "--strict")
	cmd.Dir = out
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return filepath.Join(out, "site")
}

// target is what an element of a page loads, or leads to.
var target = regexp.MustCompile(`<(a|img|link|script)\b[^>]*?\b(?:href|src)="([^"]*)"`)

func TestSite(t *testing.T) {
	root := build(t)
	t.Run("leads to its own files alone", func(t *testing.T) { checkLinks(t, root) })
	t.Run("finds each state", func(t *testing.T) { checkStates(t, root) })
}

// checkLinks reads all pages. No page loads anything from another host, and no link leads nowhere.
func checkLinks(t *testing.T, root string) {
	links := 0
	reported := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" || d.Name() == "404.html" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, found := range target.FindAllStringSubmatch(string(text), -1) {
			element := found[1]
			to, err := url.Parse(strings.ReplaceAll(found[2], "&amp;", "&"))
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			switch {
			case to.Scheme == "data" || element == "a" && to.Scheme != "":
			case to.Host != "" || to.Scheme != "":
				t.Errorf("%s loads %s", file, to)
			case to.Path != "":
				links++
				_, err := os.Stat(filepath.Join(filepath.Dir(file), to.Path))
				if err != nil && !reported[to.Path] {
					reported[to.Path] = true // many pages may share it
					t.Errorf("%s: %v", file, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 1000 {
		t.Errorf("%d links were found", links)
	}
}

// checkStates searches for the states in which something waits. Each has a page with its answer.
func checkStates(t *testing.T, root string) {
	text, err := os.ReadFile(filepath.Join(root, "search", "search_index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Docs []struct{ Location, Text, Title string }
	}
	err = json.Unmarshal(text, &index)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, d := range index.Docs {
		found[d.Location] = true
	}

	page, err := os.ReadFile("../../" + statesPage)
	if err != nil {
		t.Fatal(err)
	}
	states := statesOf(string(page))
	if len(states) < 100 {
		t.Errorf("the page has %d states", len(states))
	}
	seen := map[string]bool{}
	for _, w := range states {
		name := slug(w.name)
		if seen[name] {
			t.Errorf("two states have the page %s", name)
		}
		seen[name] = true
		if !found["why/"+name+".html"] || w.answer == "" {
			t.Errorf("state %q: no page, or no answer", w.name)
		}
	}
}

// TestRelink_FailsForAFileThatDoesNotExist names the page.
func TestRelink_FailsForAFileThatDoesNotExist(t *testing.T) {
	s := &site{repo: "../..", out: t.TempDir()}
	_, err := s.relink("[x](none.md)", "docs/README.md", "README.md")
	if err == nil || !strings.Contains(err.Error(), "docs/README.md: ") {
		t.Errorf("got %v", err)
	}
}
