package csihooks

import (
	"testing"
	"time"

	"berth/test/jobtext"
)

func TestCommands_ReplacePlaceholders(t *testing.T) {
	w := newQuiesceWorld(t)
	jobtext.Fill(&w.commands)
	w.commands.Timeout = time.Minute
	p := w.start()
	w.quiesce("")
	w.resume()
	p.end()
	has := func(i int) bool { return len(w.ran) > i && w.ran[i] == jobtext.Value }
	jobtext.Check(t, "client/csi/csihooks", map[string]bool{
		"SnapshotCommands.Pre":  has(0),
		"SnapshotCommands.Post": has(1),
	})
}
