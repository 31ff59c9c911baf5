package fsm

import (
	"strings"
	"testing"

	"berth/internal/codec"
	"berth/internal/level"
	"berth/state"
	"berth/structs"
)

// TestCommands_HaveTheLevelOfTheirRelease holds the level of each command: a server of a lower level stops at
// an entry of it.
func TestCommands_HaveTheLevelOfTheirRelease(t *testing.T) {
	newer := map[string]int{} // the commands that are newer than the first release
	for _, c := range commands {
		want := level.First
		if of, ok := newer[c.Name]; ok {
			want = of
		}
		if c.Level != want || c.Level > level.Now {
			t.Errorf("%s has level %d, want %d; this version has %d", c.Name, c.Level, want, level.Now)
		}
	}
	for _, entry := range [][]byte{nil, {250}} {
		if got := CommandOf(entry); got.ID != 0 || got.Level != 0 || got.Batched {
			t.Errorf("entry %v: got command %+v, want none", entry, got)
		}
	}
}

// TestCommands_MayShareABatch lists the commands that share entries.
func TestCommands_MayShareABatch(t *testing.T) {
	want := map[string]bool{}
	for _, name := range strings.Fields("NodeRegister NodeStatus NodeUpdateCSI JobRegister EvalUpdate " +
		"PlanApply AllocsClientUpdate VolumePut VolumeOutcome VolumeClaim VolumeUnpublish " +
		"AttachmentOutcome SITokensRegister SITokensDeregister") {
		want[name] = true
	}
	for _, c := range commands {
		if c.Batched != want[c.Name] {
			t.Errorf("%s may share a batch: %v, want %v", c.Name, c.Batched, want[c.Name])
		}
	}
}

// newerPayload is a payload with a field of a later release.
type newerPayload struct {
	Name  string
	Bound int `level:"3"`
	Hint  int `level:"3" older:"drop"`
}

// aCommand lists another command for the time of a test.
func aCommand(t *testing.T, options ...func(*CommandInfo)) Command[newerPayload] {
	t.Helper()
	listed := commands
	t.Cleanup(func() { commands = listed })
	apply := func(*state.WriteTx, *newerPayload) error { return nil }
	return command(255, "Newer", apply, options...)
}

func TestFitLevel_NamesWhatAServerDoesNotKnow(t *testing.T) {
	newer := []func(*CommandInfo){since(3)}
	for name, c := range map[string]struct {
		options []func(*CommandInfo)
		payload newerPayload
		least   int
		want    string
	}{
		"servers without a level": {nil, newerPayload{Name: "x"}, 0, "the command Newer needs level 2"},
		"a newer command":         {newer, newerPayload{Name: "x"}, 2, "the command Newer needs level 3"},
		"one that they know":      {newer, newerPayload{Name: "x", Bound: 1}, 3, ""},
		"a newer field":           {nil, newerPayload{Bound: 1}, 2, "Bound needs level 3"},
		"a field that is not set": {nil, newerPayload{Name: "x"}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			entry, err := aCommand(t, c.options...).Encode(&c.payload)
			if err != nil {
				t.Fatal(err)
			}
			_, err = FitLevel(entry, c.least)
			if c.want == "" && err != nil {
				t.Error(err)
			}
			if c.want != "" && (!structs.IsKind(err, structs.KindPrecondition) ||
				!strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A hint of the leader reaches the log once all servers know it, and the entry does so before.
func TestFitLevel_DropsWhatAnOlderServerNeedNotKnow(t *testing.T) {
	c := aCommand(t)
	for least, want := range map[int]newerPayload{2: {Name: "x"}, 3: {Name: "x", Hint: 1}} {
		entry, err := c.Encode(&newerPayload{Name: "x", Hint: 1})
		if err != nil {
			t.Fatal(err)
		}
		entry, err = FitLevel(entry, least)
		var got newerPayload
		if err == nil {
			err = codec.Decode(entry[1:], &got)
		}
		if err != nil || entry[0] != c.ID || got != want {
			t.Errorf("level %d: %+v, %v", least, got, err)
		}
	}
}

// A damaged entry is not proposed beside an older server: its fields are not known.
func TestFitLevel_RejectsAnEntryThatItCannotRead(t *testing.T) {
	c := aCommand(t)
	if _, err := FitLevel([]byte{c.ID, 0xc1}, 2); structs.KindOf(err) != structs.KindInternal {
		t.Errorf("got %v", err)
	}
}
