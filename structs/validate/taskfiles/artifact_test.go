package taskfiles

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestGetter_NamesTheProtocol(t *testing.T) {
	for source, want := range map[string]string{
		"https://example.com/x":                 "https",
		"HTTP://example.com/x":                  "http",
		"http://localhost:${NOMAD_PORT_http}/x": "http",
		"git::https://example.com/r.git":        "git",
		"git::git@example.com:o/r":              "git",
		"git@github.com:o/r.git":                "git",
		"github.com/o/r//sub":                   "git",
		"ssh://git@example.com/r":               "git",
		"git::ssh://git@example.com/r":          "git",
		"git::github.com/o/r":                   "git",
		"file:///opt/x":                         "file",
		"file::/opt/x":                          "file",
		"/opt/x":                                "file",
		"${NOMAD_META_SOURCE}":                  "",
		"git::${NOMAD_META_SOURCE}":             "git",
	} {
		got, err := Getter(&structs.TaskArtifact{GetterSource: source})
		if got != want || err != nil {
			t.Errorf("%s: got %q and %v, want %q", source, got, err, want)
		}
	}
	for source, want := range map[string]string{
		"s3::https://s3.amazonaws.com/b/o":    "storage service s3",
		"gcs::https://www.googleapis.com/b/o": "storage service gcs",
		"hg::https://example.com/r":           "berth does not download by hg",
		"smb://example.com/x":                 "berth does not download by smb",
		"https::http://example.com/x":         "berth does not download by https",
		"git::file:///srv/r":                  "not by file",
		"git::ext::sh -c id":                  "not by",
		"example.com/x":                       "names no protocol",
		"git::--upload-pack=touch /tmp/x":     "after git:: has no protocol",
		"git::-u":                             "after git:: has no protocol",
		"git::git::--upload-pack=x":           "names its protocol twice",
		"git::repository":                     "after git:: has no protocol",
		"git::https:///r.git":                 "has no host",
		"https:///x":                          "has no host",
		"ssh://-oProxyCommand=id/r":           "must not begin with -",
		"git::ssh://-oProxyCommand=id@h/r":    "must not begin with -",
		"git::ssh://git@-oProxyCommand=id/r":  "must not begin with -",
		"git@-oProxyCommand:r":                "its host must not begin with -",
		"-git@example.com:r":                  "its user must not begin with -",
		"git@example.com:-r":                  "its path must not begin with -",
		"github.com/o/r?ref=--upload-pack=id": "ref must be the name of a branch",
		"git@example.com:o/r?ref=-x":          "ref must be the name of a branch",
		"git::https://example.com/r?ref=-x":   "ref must be the name of a branch",
		"git::https://example.com/r?a;b":      "is not of the form key=value",
	} {
		_, err := Getter(&structs.TaskArtifact{GetterSource: source})
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", source, err, want)
		}
	}
}
