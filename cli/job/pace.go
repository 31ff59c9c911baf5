package job

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"berth/cli/command"
	"berth/internal/backoff"
	"berth/structs"
)

// The values of -on-error. The last one is also a value of -batch-wait.
const (
	onErrorFail     = "fail"
	onErrorContinue = "continue"
	ask             = "ask"
)

// restartPace is what happens between two batches of a restart.
type restartPace struct {
	*command.Call
	answers *bufio.Reader
	wait    time.Duration
	asks    bool // before each batch
}

// paceOf reads the options. Without a terminal nobody can be asked.
func paceOf(c *command.Call) (*restartPace, error) {
	p := &restartPace{Call: c, answers: bufio.NewReader(c.In)}
	text := c.String("batch-wait")
	if text == ask {
		p.asks = true
	} else {
		var err error
		p.wait, err = time.ParseDuration(text)
		if err != nil || p.wait < 0 {
			return nil, command.BadUsage(
				"the option -batch-wait is %q, expected a duration such as 30s, or ask", text,
			)
		}
	}

	f, isFile := c.In.(*os.File)
	questions := p.asks || c.String("on-error") == ask
	if questions && !c.Bool("yes") && isFile && !term.IsTerminal(int(f.Fd())) {
		return nil, command.BadUsage("ask needs a terminal, or -yes")
	}

	return p, nil
}

// beforeNext asks and waits before the next batch. It reports whether that follows. faults is the number
// of faults of the batch before.
func (p *restartPace) beforeNext(ctx context.Context, faults int) (goOn bool, err error) {
	asksFault := faults > 0 && p.String("on-error") == ask
	if !p.Bool("yes") && (p.asks || asksFault) {
		goOn, err := p.askForNext()
		if err != nil || !goOn {
			return false, err
		}
	}

	if p.wait > 0 {
		p.Printf("Next batch in %s\n", p.wait)
	}

	if !backoff.Sleep(ctx, p.wait) {
		return false, structs.Timeoutf("interrupted; no further batch is restarted; "+
			"to see the state of the job: %s", structs.CommandLine(p.Namespace(), "job why", p.Arg(0)))
	}

	return true, nil
}

// askForNext asks on the terminal until the answer is clear. A duration is the wait before this batch and all
// later ones.
func (p *restartPace) askForNext() (goOn bool, err error) {
	for {
		fmt.Fprint(p.Err, "Restart the next batch? [y/n/duration to wait before each, such as 30s] ")
		line, err := p.answers.ReadString('\n')
		answer := strings.TrimSpace(line)
		wait, notDuration := time.ParseDuration(answer)
		switch {
		case answer == "y":
			return true, nil
		case answer == "n", errors.Is(err, io.EOF) && answer == "":
			return false, nil
		case notDuration == nil && wait >= 0:
			p.wait = wait
			p.asks = false
			return true, nil
		case err != nil:
			return false, err
		}
	}
}
