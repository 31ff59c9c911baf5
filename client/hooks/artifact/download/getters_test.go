package download

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-getter/v2"
)

// TestGitGetter_GivesGitNoOption: the text after git:: is an option of git that executes a program.
func TestGitGetter_GivesGitNoOption(t *testing.T) {
	hostile := []string{
		"git::--upload-pack=touch$IFS",
		"git::-u",
		"git::ssh://-oProxyCommand=id/r",
		"git::ssh://-oProxyCommand=id@h/r",
		"git::ssh://h/-r",
		"git::ssh://h/~-r",
		"git::git://h/-r",
		"git::https://h.invalid/r?ref=--x",
		"git::https://h.invalid/r?ref=v1&ref=-x",
		"git::https://h.invalid/r?depth=1&ref=%2d-x",
		"http://h.invalid/f?checksum=" + url.QueryEscape("file:git::https://h.invalid/r//f?ref=--x"),
		"http://h.invalid/f?checksum=file:git::https://h.invalid/r/f%3Fref=--x",
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel() // a source that is not rejected fails otherwise, before git runs
	g := newGuard(Rules{})
	check := func(source string, mode getter.Mode) {
		dir := t.TempDir()
		client := &getter.Client{Getters: getters(&Request{}, g), DisableSymlinks: true}
		_, err := client.Get(ended, &getter.Request{
			Src:     source,
			Dst:     filepath.Join(dir, Out),
			GetMode: mode,
		})
		if err == nil || !strings.Contains(err.Error(), "begin with -") {
			t.Errorf("%s: got %v", source, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 0 {
			t.Errorf("%s: left are %v, %v", source, left, err)
		}
	}
	for _, source := range hostile {
		check(source, getter.ModeDir)
		check(source, getter.ModeFile)
	}
}

func TestBitbucketDetector_AsksNobody(t *testing.T) {
	rejected := errors.New("a request goes past the guard")
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, rejected })
	g := getters(&Request{}, newGuard(Rules{}))[0]
	for source, expected := range map[string]string{
		"bitbucket.org/o/r":           "https://bitbucket.org/o/r.git",
		"bitbucket.org/o/r.git?ref=x": "https://bitbucket.org/o/r.git?ref=x",
	} {
		req := &getter.Request{Src: source}
		ok, err := getter.Detect(req, g)
		if !ok || err != nil || req.Src != expected {
			t.Errorf("%s: got %t, %v, %s", source, ok, err, req.Src)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
