package defaults

import (
	"berth/structs"
	"testing"
)

func artifacts(list ...*structs.TaskArtifact) func(*structs.Job) {
	return func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Artifacts = list }
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
		given := &structs.TaskArtifact{GetterSource: source, GetterMode: c.mode, RelativeDest: c.dest}
		j := testJob(artifacts(given, nil))
		got := j.TaskGroups[0].Tasks[0].Artifacts[0]
		if got.GetterMode != c.wantMode || got.RelativeDest != c.wantDest {
			t.Errorf("mode %q and destination %q became %q and %q", c.mode, c.dest, got.GetterMode, got.RelativeDest)
		}
	}
}
