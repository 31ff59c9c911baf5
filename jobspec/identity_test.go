package jobspec

import (
	"reflect"
	"strings"
	"testing"

	"berth/internal/hclconf"
	"berth/structs"
)

// fileWith returns a job file with lines in its group, its service and its task.
func fileWith(ofGroup, ofService, ofTask string) []byte {
	return []byte("job \"j\" {\ngroup \"g\" {\n" + ofGroup + "\nservice {\n" + ofService +
		"\n}\ntask \"t\" {\ndriver = \"exec\"\n" + ofTask + "\n}\n}\n}")
}

// identity returns a block with lines, which ";" separates.
func identity(lines string) string {
	return "identity {\n" + strings.ReplaceAll(lines, ";", "\n") + "\n}\n"
}

// TestReadJob_AcceptsIdentitiesThatNoTaskMisses reads the blocks of the example files of the dialect, and
// others.
func TestReadJob_AcceptsIdentitiesThatNoTaskMisses(t *testing.T) {
	plain, err := parseJob("j.hcl", fileWith("", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	const warned = `"identity" has no effect: berth issues no tokens`
	const rejected = "!let a template read a token by nomadVar"
	for block, want := range map[string]string{
		identity("env = true; file = true"):                          warned,
		identity("") + identity(`name = "default"`):                  warned,
		identity(`aud = ["nomadproject.io"]; ttl = "1h"`):            warned,
		identity(`change_mode = "signal"; change_signal = "SIGHUP"`): warned,
		identity(`name = "vault"`):                                   rejected,
		identity(`aud = ["aws"]`):                                    rejected,
		identity(`filepath = "local/t"`):                             rejected,
		identity(`extra_claims = ["a"]`):                             rejected,
		identity(`evn = true`):                                       `!did you mean "env"`,
	} {
		checkWarned(t, fileWith("", "", block), want, plain)
	}
	for block, want := range map[string]string{
		identity(`aud = ["consul.io"]; ttl = "1h"`):  `"identity" has no effect: the agent of the node`,
		identity(`aud = ["consul.io"]; file = true`): "!one for Consul",
		identity(`aud = ["x"]`):                      "!one for Consul",
		`cluster = "default"`:                        "",
		`cluster = "two"`:                            "!a node has one Consul",
	} {
		checkWarned(t, fileWith("", block, ""), want, plain)
	}
}

// TestReadJob_AcceptsBlocksWithoutEffect reads names of the dialect whose absence no running task notices.
func TestReadJob_AcceptsBlocksWithoutEffect(t *testing.T) {
	plain, err := parseJob("j.hcl", fileWith("", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	const scaling = "scaling \"mem\" {\n max = 5\n}"
	const action = "action \"a\" {\n command = \"/bin/true\"\n}"
	checkWarned(t, fileWith("", "", scaling), `"scaling" has no effect`, plain)
	checkWarned(t, fileWith("", "", action), `"action" has no effect`, plain)
}

// checkWarned fails the test unless a file has the warning and leaves the job plain, or, with a "!", the
// fault.
func checkWarned(t *testing.T, src []byte, want string, plain *structs.Job) {
	t.Helper()
	f, err := ReadJob("j.hcl", src, &Inputs{})
	fault, rejected := strings.CutPrefix(want, "!")
	if rejected {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: got %v, want %s", src, err, fault)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", src, err)
		return
	}
	got := strings.Join(hclconf.Warnings(f.Warnings), "\n")
	if !strings.Contains(got, want) || (got == "") != (want == "") {
		t.Errorf("%s: got the warnings %q, want %q", src, got, want)
	}
	if !reflect.DeepEqual(f.Job, plain) {
		t.Errorf("%s: the block changes the job: %+v", src, f.Job)
	}
}
