package pages

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "make the Go files of the components again, and write their digests")

// generator is the program that makes the Go files of the components.
const generator = "github.com/a-h/templ/cmd/templ"

// digests is the file with the digests of the sources and of what was made of them.
const digests = "testdata/digests.txt"

// TestFiles_AreThoseOfTheirSources finds a source that was changed without the Go file, and the reverse. It
// compares digests: the generator is a program of its own, which is not there offline.
func TestFiles_AreThoseOfTheirSources(t *testing.T) {
	if *update {
		run(t, "run", generator+"@"+libraryVersion(t), "fmt", ".")
		run(t, "run", generator+"@"+libraryVersion(t), "generate")
		err := os.WriteFile(digests, []byte(digestsOf(t)), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(digests)
	if err != nil {
		t.Fatal(err)
	}
	if got := digestsOf(t); got != string(want) {
		t.Errorf("the files are not those of %s; run go generate ./ui/pages:\n%s", digests, got)
	}
}

// TestFiles_AreOfTheVersionOfTheLibrary: generated code calls the library of its own version.
func TestFiles_AreOfTheVersionOfTheLibrary(t *testing.T) {
	want := "// templ: version: " + libraryVersion(t) + "\n"
	for _, name := range files(t, "*_templ.go") {
		if !strings.Contains(read(t, name), want) {
			t.Errorf("%s lacks %q; run go generate ./ui/pages", name, want)
		}
	}
}

// TestSources_MarkNothingAsSafe: a component has no text or address that the library does not escape.
func TestSources_MarkNothingAsSafe(t *testing.T) {
	sources := files(t, "*.templ")
	if len(sources) < 5 {
		t.Fatalf("found the sources %q", sources)
	}
	for _, name := range append(sources, "data.go") {
		text := read(t, name)
		for _, unsafe := range []string{
			"templ.Raw", "templ.Safe", "templ.JS", "templ.ComponentScript", "templ.FromGoHTML",
			"<style", "style=", "hx-on",
		} {
			if strings.Contains(text, unsafe) {
				t.Errorf("%s has %s", name, unsafe)
			}
		}
	}
}

// run runs the go command.
func run(t *testing.T, args ...string) (output string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// libraryVersion returns the version of the library in go.mod.
func libraryVersion(t *testing.T) string {
	t.Helper()
	return run(t, "list", "-m", "-f", "{{.Version}}", "github.com/a-h/templ")
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func digestsOf(t *testing.T) string {
	t.Helper()
	names := append(files(t, "*.templ"), files(t, "*_templ.go")...)
	slices.Sort(names)
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "%x  %s\n", sha256.Sum256([]byte(read(t, name))), name)
	}
	return all.String()
}
