package jobspec

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/internal/conf"
	"berth/structs"
)

// fileWith returns a job file with lines in its group, its service and its task.
func fileWith(ofGroup, ofService, ofTask string) []byte {
	return []byte("job \"j\" {\ngroup \"g\" {\n" + ofGroup + "\nservice {\n" + ofService +
		"\n}\ntask \"t\" {\ndriver = \"exec\"\n" + ofTask + "\n}\n}\n}")
}

// TestReadJob_ReadsIdentities reads the identities of a task and of a service.
func TestReadJob_ReadsIdentities(t *testing.T) {
	f, err := ReadJob("j.hcl", fileWith("",
		`identity {
			aud = ["consul.io"]
			ttl = "2h"
		}`,
		`identity {
			name          = "aws"
			aud           = ["sts", "s3"]
			file          = true
			filepath      = "local/aws.jwt"
			ttl           = "30m"
			change_mode   = "signal"
			change_signal = "SIGUSR1"
		}
		identity {
			env = true
		}`), &Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	group := f.Job.TaskGroups[0]
	task := group.Tasks[0]
	wantListed := []*structs.WorkloadIdentity{{
		Name:         "aws",
		Audience:     []string{"sts", "s3"},
		ChangeMode:   "signal",
		ChangeSignal: "SIGUSR1",
		File:         true,
		Filepath:     "local/aws.jwt",
		TTL:          30 * time.Minute,
	}}
	if !reflect.DeepEqual(task.Identities, wantListed) || len(f.Warnings) > 0 {
		t.Errorf("got %+v, warnings %v", task.Identities[0], f.Warnings)
	}
	if want := (&structs.WorkloadIdentity{Env: true}); !reflect.DeepEqual(task.Identity, want) {
		t.Errorf("got the default one %+v", task.Identity)
	}
	want := &structs.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: 2 * time.Hour}
	if got := group.Services[0].Identity; !reflect.DeepEqual(got, want) {
		t.Errorf("got that of the service %+v", got)
	}
}

// TestReadJob_NamesFaultsOfIdentities reads blocks that no identity can be made of.
func TestReadJob_NamesFaultsOfIdentities(t *testing.T) {
	for block, want := range map[string]string{
		"identity {}\nidentity {\n name = \"default\"\n}": "two identities with the name",
		"identity {\n extra_claims = [\"a\"]\n}":          "the claims of its allocation alone",
		"identity {\n evn = true\n}":                      `did you mean "env"`,
		"identity {\n ttl = \"soon\"\n}":                  "soon",
	} {
		_, err := parseJob("j.hcl", fileWith("", "", block))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", block, err, want)
		}
	}
}

// TestReadJob_AcceptsBlocksWithoutEffect reads names of the dialect whose absence no running task notices.
func TestReadJob_AcceptsBlocksWithoutEffect(t *testing.T) {
	plain, err := parseJob("j.hcl", fileWith("", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	const scaling = "scaling \"mem\" {\n max = 5\n}"
	checkWarned(t, fileWith("", "", scaling), `"scaling" has no effect`, plain)
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
	got := strings.Join(conf.Warnings(f.Warnings), "\n")
	if !strings.Contains(got, want) || (got == "") != (want == "") {
		t.Errorf("%s: got the warnings %q, want %q", src, got, want)
	}
	if !reflect.DeepEqual(f.Job, plain) {
		t.Errorf("%s: the block changes the job: %+v", src, f.Job)
	}
}
