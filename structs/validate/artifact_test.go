package validate

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestJob_NamesTheFaultOfAnArtifact(t *testing.T) {
	many := map[string]string{}
	for i := range structs.MaxArtifactPairs + 1 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	sum := strings.Repeat("a1", 32)
	option := func(key, value string) func(*structs.TaskArtifact) {
		return func(a *structs.TaskArtifact) { a.GetterOptions = map[string]string{key: value} }
	}
	header := func(key, value string) func(*structs.TaskArtifact) {
		return func(a *structs.TaskArtifact) { a.GetterHeaders = map[string]string{key: value} }
	}
	dest := func(dest string) func(*structs.TaskArtifact) {
		return func(a *structs.TaskArtifact) { a.RelativeDest = dest }
	}
	source := func(s string) func(*structs.TaskArtifact) {
		return func(a *structs.TaskArtifact) { a.GetterSource = s }
	}
	for _, c := range []struct {
		want string // "" for valid
		edit func(*structs.TaskArtifact)
	}{
		{"", func(*structs.TaskArtifact) {}},
		{"source is required", source("")},
		{"source has 4097 bytes", source("http://" + strings.Repeat("x", structs.MaxText-6))},
		{"source must be UTF-8 without NUL", source("http://x/\x00")},
		{"source: berth has no client of the storage service s3", source("s3::https://x/y")},
		{`mode "tree" must be one of any, file, dir`, func(a *structs.TaskArtifact) { a.GetterMode = "tree" }},
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
		{"65 options; at most 64", func(a *structs.TaskArtifact) { a.GetterOptions = many }},
		{`headers: "a b" is not the name of a header`, header("a b", "x")},
		{`headers: the value of "a" must be one line`, header("a", "x\r\ny")},
		{"65 headers; at most 64", func(a *structs.TaskArtifact) { a.GetterHeaders = many }},
		{"headers has 32769 bytes", header("a", strings.Repeat("x", structs.MaxArtifactBytes))},
	} {
		a := &structs.TaskArtifact{GetterSource: "https://example.com/x"}
		c.edit(a)
		err := Job(testJob(artifacts(&structs.TaskArtifact{GetterSource: "http://x/y"}, a)))
		path := `job "db": group "g": task "t": artifact 2: `
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), path+c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	err := Job(testJob(artifacts(make([]*structs.TaskArtifact, structs.MaxArtifacts+1)...)))
	if err == nil || !strings.Contains(err.Error(), "65 artifacts; at most 64") ||
		!strings.Contains(err.Error(), "artifact 1 is null") {
		t.Errorf("got %v", err)
	}
}

func TestArtifact_OfExecIsInAPlaceThatTheTaskSees(t *testing.T) {
	for dest, says := range map[string]string{
		"/dev/shm": "a task of the driver exec has a /dev of its own",
		"proc":     "a task of the driver exec has a /proc of its own",
		"opt/app":  "",
		"/usr":     "",
	} {
		j := withTemplate(&structs.Template{EmbeddedTmpl: "x", DestPath: "local/x"}, func(t *structs.Task) {
			t.Driver = "exec"
			t.VolumeMounts = nil
			t.Artifacts = []*structs.TaskArtifact{{GetterSource: "https://a/b", RelativeDest: dest}}
		})
		err := Job(j)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want %q", dest, err, says)
		}
		j.TaskGroups[0].Tasks[0].Driver = driverRawExec
		if err := Job(j); err != nil {
			t.Errorf("%s: %v", dest, err)
		}
	}
}
