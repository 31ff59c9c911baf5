package jobspec

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestReadJob_ReadsDisconnect(t *testing.T) {
	for src, want := range map[string]*structs.DisconnectStrategy{
		``:              nil,
		`disconnect {}`: {},
		`disconnect {
			lost_after = "6h"
			replace    = false
			reconcile  = "keep_original"
		}`: {LostAfter: 6 * time.Hour, Replace: new(false), Reconcile: structs.ReconcileKeepOriginal},
		`disconnect { stop_on_client_after = "90s" }`: {StopOnClientAfter: new(90 * time.Second)},
		`max_client_disconnect = "1h"`:                {LostAfter: time.Hour},
		`stop_after_client_disconnect = "1m"`:         {StopOnClientAfter: new(time.Minute)},
		`prevent_reschedule_on_lost = true`:           {Replace: new(false)},
		`prevent_reschedule_on_lost = false
		max_client_disconnect = "1h"`: {LostAfter: time.Hour, Replace: new(true)},
	} {
		f, err := ReadJob("j.hcl", []byte(head+src+tail), &Inputs{})
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		got := f.Job.TaskGroups[0].Disconnect
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v", src, got)
		}
		former := strings.Count(src, "_disconnect") + strings.Count(src, "prevent_")
		if len(f.Warnings) != former {
			t.Errorf("%s: warnings %q", src, f.Warnings)
		}
	}
}

// A former argument beside the block, and times that exclude each other, are faults.
func TestReadJob_RejectsAFormerArgumentBesideTheBlock(t *testing.T) {
	_, err := ReadJob("j.hcl", []byte(head+"disconnect {}\nmax_client_disconnect = \"1h\""+tail), &Inputs{})
	want := `max_client_disconnect beside disconnect; expected lost_after = "1h0m0s" in the block`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
