package e2e

import (
	"fmt"
	"testing"

	"github.com/prometheus/procfs"
)

// A third of the memory of an agent is pages of its program that only the start uses.
func TestAgent_GivesPagesOfItsStartBack(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	most := uint64(0)
	eventually(t, "the agent has a quarter less of files in its memory than at its start", func() error {
		process, err := procfs.NewProc(a.cmd.Process.Pid)
		if err != nil {
			return err
		}
		status, err := process.NewStatus()
		if err != nil {
			return err
		}
		most = max(most, status.RssFile)
		if status.RssFile > most-most/4 {
			return fmt.Errorf("%d bytes of files are resident, %d at most", status.RssFile, most)
		}
		return nil
	})
	a.stop()
}
