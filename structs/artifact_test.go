package structs

import (
	"strings"
	"testing"
)

func artifacts(list ...*TaskArtifact) func(*Job) {
	return func(j *Job) { j.TaskGroups[0].Tasks[0].Artifacts = list }
}

func TestCanonicalize_CompletesArtifacts(t *testing.T) {
	const source = "https://example.com/d/x.bin"
	for _, c := range []struct {
		mode, dest         string
		wantMode, wantDest string
	}{
		{"", "", "any", "local/"},
		{"dir", "", "dir", "local/"},
		{"file", "", "file", "local/x.bin"},
		{"file", "local/y", "file", "local/y"},
	} {
		j := testJob(artifacts(&TaskArtifact{GetterSource: source, GetterMode: c.mode, RelativeDest: c.dest}, nil))
		got := j.TaskGroups[0].Tasks[0].Artifacts[0]
		if got.GetterMode != c.wantMode || got.RelativeDest != c.wantDest {
			t.Errorf("mode %q and destination %q became %q and %q", c.mode, c.dest, got.GetterMode, got.RelativeDest)
		}
	}
}

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
		got, err := (&TaskArtifact{GetterSource: source}).Getter()
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
		_, err := (&TaskArtifact{GetterSource: source}).Getter()
		if !IsKind(err, KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", source, err, want)
		}
	}
}

func TestJobValidate_NamesTheFaultOfAnArtifact(t *testing.T) {
	many := map[string]string{}
	for i := range MaxArtifactPairs + 1 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	sum := strings.Repeat("a1", 32)
	option := func(key, value string) func(*TaskArtifact) {
		return func(a *TaskArtifact) { a.GetterOptions = map[string]string{key: value} }
	}
	header := func(key, value string) func(*TaskArtifact) {
		return func(a *TaskArtifact) { a.GetterHeaders = map[string]string{key: value} }
	}
	dest := func(dest string) func(*TaskArtifact) { return func(a *TaskArtifact) { a.RelativeDest = dest } }
	source := func(s string) func(*TaskArtifact) { return func(a *TaskArtifact) { a.GetterSource = s } }
	for _, c := range []struct {
		want string // "" for valid
		edit func(*TaskArtifact)
	}{
		{"", func(*TaskArtifact) {}},
		{"source is required", source("")},
		{"source has 4097 bytes", source("http://" + strings.Repeat("x", MaxText-6))},
		{"source must be UTF-8 without NUL", source("http://x/\x00")},
		{"source: berth has no client of the storage service s3", source("s3::https://x/y")},
		{`mode "tree" must be one of any, file, dir`, func(a *TaskArtifact) { a.GetterMode = "tree" }},
		{`destination "../x" must be within`, dest("../x")},
		{`destination "local/../../x"`, dest("local/../../x")},
		{`destination "../allocs"`, dest("../allocs")},
		{"", dest("../alloc/x")},
		{"", dest("${NOMAD_ALLOC_DIR}/x")},
		{"destination must be UTF-8 without NUL", dest("x\x00")},
		{"options: checksum must be", option("checksum", "sha256:00")},
		{"options: checksum must be", option("checksum", "crc:"+sum)},
		{"options: checksum must be", option("checksum", "md5:"+sum)},
		{"options: checksum must be", option("checksum", "file:")},
		{"", option("checksum", "sha256:"+sum)},
		{"", option("checksum", sum)},
		{"", option("checksum", "file:https://example.com/sums")},
		{"", option("checksum", "file:/srv/files/sums")},
		{"options: checksum must be", option("checksum", "file:git::https://x/r//f?ref=--x")},
		{"options: checksum must be", option("checksum", "file:https::git::https://x/r//f")},
		{"options: checksum must be", option("checksum", "file:git@x:o/r//f")},
		{"options: checksum must be", option("checksum", "file:github.com/o/r//f")},
		{"options: checksum must be", option("checksum", "file:sums")},
		{"", source("https://x/y?checksum=file:https://example.com/sums")},
		{"", source("https://x/y?checksum=file:${NOMAD_META_SUMS}")},
		{"source: its checksum must be", source("https://x/y?checksum=file:git::https://x/r//f%3Fref=--x")},
		{"source: its path must not begin with -", source("ssh://git@x/-r")},
		{"source: its path must not begin with -", source("ssh://git@x/~-r")},
		{"", option("checksum", "sha256:${NOMAD_META_SUM}")},
		{`options: archive "rar"`, option("archive", "rar")},
		{"", option("archive", "tar.gz")},
		{"", option("archive", "false")},
		{"options: ref must be", option("ref", "--upload-pack=x")},
		{"", option("ref", "v1.0")},
		{"options: ref must be", option("ref", "-${NOMAD_META_REF}")},
		{"", option("ref", "v${NOMAD_META_REF}")},
		{"source: ref must be", source("git::https://x/r?ref=-${NOMAD_META_REF}")},
		{"source: its subdirectory must not begin with -", source("git::https://x/r.git//-x")},
		{"source: its subdirectory must not begin with -", source("git::https://x/r.git//%2dx?ref=v1")},
		{"source: its subdirectory must not begin with -", source("git::https://x/r.git//./-x")},
		{"source: its subdirectory must not begin with -", source("git::https://x/r.git///-x")},
		{"source: its subdirectory must not begin with -", source("https://x/a.zip//-${NOMAD_META_DIR}")},
		{"source: its subdirectory must not begin with -", source("git@x:o/r//-x")},
		{"source: its subdirectory must not begin with -", source("github.com/o/r/-x")},
		{"source: its subdirectory must not begin with -", source("git::github.com/o/r/%2Dx")},
		{"", source("github.com/o/-r/a/-x")},
		{"", source("git::https://x/-r.git//a/-x?ref=v1")},
		{`options: depth "-1" must be a number`, option("depth", "-1")},
		{"options: a key is empty", option("", "x")},
		{"65 options; at most 64", func(a *TaskArtifact) { a.GetterOptions = many }},
		{`headers: "a b" is not the name of a header`, header("a b", "x")},
		{`headers: the value of "a" must be one line`, header("a", "x\r\ny")},
		{"65 headers; at most 64", func(a *TaskArtifact) { a.GetterHeaders = many }},
		{"headers has 32769 bytes", header("a", strings.Repeat("x", MaxArtifactBytes))},
	} {
		a := &TaskArtifact{GetterSource: "https://example.com/x"}
		c.edit(a)
		err := testJob(artifacts(&TaskArtifact{GetterSource: "http://x/y"}, a)).Validate()
		path := `job "db": group "g": task "t": artifact 2: `
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), path+c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	err := testJob(artifacts(make([]*TaskArtifact, MaxArtifacts+1)...)).Validate()
	if err == nil || !strings.Contains(err.Error(), "65 artifacts; at most 64") ||
		!strings.Contains(err.Error(), "artifact 1 is null") {
		t.Errorf("got %v", err)
	}
}
