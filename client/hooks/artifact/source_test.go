package artifact

import "testing"

func TestShownSource_HasNoSecrets(t *testing.T) {
	for source, want := range map[string]string{
		"https://host/f.zip":                           "https://host/f.zip",
		"https://host:8080/signed/t0ken/f.zip?sig=abc": "https://host:8080/.../f.zip",
		"https://me:pass@host/a/f.zip?x":               "https://host/.../f.zip",
		"http://host/a/b/":                             "http://host/.../b/",
		"https://host":                                 "https://host",
		"git::https://t0ken@host/org/repo.git?ref=v1":  "git::https://host/org/repo.git",
		"github.com/org/repo":                          "github.com/org/repo",
		"file:///srv/files/f":                          "file:///srv/files/f",
	} {
		if got := shownSource(source); got != want {
			t.Errorf("%s: got %s, want %s", source, got, want)
		}
	}
}
