package executor

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// CopyArg makes Main a task itself: it copies two named pipes to its standard output and error. A driver
// whose tasks write into named pipes runs it as a task, so that their output gets into bounded files.
const CopyArg = "copy"

// copyPipes copies until SIGTERM, and then what is left in the pipes.
func copyPipes(stdout, stderr string) int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM)
	var from []*os.File
	for _, path := range []string{stdout, stderr} {
		f, err := os.OpenFile(path, os.O_RDWR, 0) // also open for writing: it has no end
		if err != nil {
			fmt.Fprintln(os.Stderr, "executor:", err)
			return 1
		}
		defer f.Close()

		from = append(from, f)
	}

	var copying sync.WaitGroup
	for i, to := range []*os.File{os.Stdout, os.Stderr} {
		copying.Go(func() { _ = copyOutput(to, from[i]) })
	}

	<-asked
	for _, f := range from {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // tells copyOutput
	}

	copying.Wait()
	return 0
}

// drainPause is how long a pipe must be empty, or may be written to, after the end of the task.
const drainPause = 100 * time.Millisecond
