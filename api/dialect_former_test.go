package api

import (
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// formerGroups is the source of a job with groups, as the job or as a body with it.
func formerGroups(groups string, wrapped bool) string {
	job := `{"ID": "j", "TaskGroups": [` + groups + `]}`
	if wrapped {
		return `{"Job": ` + job + `}`
	}
	return job
}

func TestDecodeJob_TakesTheFormerNamesOfDisconnect(t *testing.T) {
	t.Parallel()
	src := formerGroups(`{"Name": "a", "MaxClientDisconnect": null, "StopAfterClientDisconnect": 0}, null,
		{"Name": "b", "MaxClientDisconnect": 60000000000, "PreventRescheduleOnLost": true},
		{"Name": "c", "StopAfterClientDisconnect": 5000000000, "PreventRescheduleOnLost": false}`, false)
	job, warnings, err := DecodeJob([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if got := job.TaskGroups[0].Disconnect; got != nil {
		t.Errorf("a group without the fields has %+v", got)
	}
	b := job.TaskGroups[2].Disconnect
	if b == nil || b.LostAfter != time.Minute || b.Replace == nil || *b.Replace || b.StopOnClientAfter != nil {
		t.Errorf("b has %+v", b)
	}
	c := job.TaskGroups[3].Disconnect
	if c == nil || c.LostAfter != 0 || c.Replace != nil || c.StopOnClientAfter == nil ||
		*c.StopOnClientAfter != 5*time.Second {
		t.Errorf("c has %+v", c)
	}
	const want = "MaxClientDisconnect is a former name of Disconnect.LostAfter\n" +
		"PreventRescheduleOnLost is a former name of Disconnect.Replace, negated\n" +
		"StopAfterClientDisconnect is a former name of Disconnect.StopOnClientAfter"
	if got := strings.Join(warnings, "\n"); got != want {
		t.Errorf("got the warnings\n%s\nwant\n%s", got, want)
	}
}

func TestFormer_ReadsABodyWithAJob(t *testing.T) {
	t.Parallel()
	job := &structs.Job{TaskGroups: []*structs.TaskGroup{{Name: "g"}}}
	err := addFormerFields([]byte(formerGroups(`{"MaxClientDisconnect": 60000000000}`, true)), job, 1)
	if err != nil || job.TaskGroups[0].Disconnect.LostAfter != time.Minute {
		t.Errorf("got %+v, %v", job.TaskGroups[0].Disconnect, err)
	}
}

func TestDecodeJob_RejectsFormerNamesThatItCannotTake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ src, want string }{
		"beside the block": {
			formerGroups(`{"Disconnect": {"LostAfter": 1}, "MaxClientDisconnect": 60000000000}`, false),
			"TaskGroups[0]: Disconnect beside MaxClientDisconnect",
		},
		"of another object": {
			`{"ID": "j", "MaxClientDisconnect": 60000000000, "TaskGroups": [{"Name": "g"}]}`,
			"outside of a task group",
		},
		"another type": {
			formerGroups(`{"MaxClientDisconnect": "1m"}`, false),
			"set Disconnect.LostAfter",
		},
	} {
		_, _, err := DecodeJob([]byte(c.src))
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}
