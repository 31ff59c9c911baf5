package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"

	"berth/internal/backoff"
	"berth/internal/process"
)

const (
	// killTimeout bounds the wait for a process that was killed. The kernel may hold it in a system call.
	killTimeout = 10 * time.Second
	// watchRetry is the time between two attempts to watch a process, which a machine without free files
	// rejects.
	watchRetry = time.Second
)

// The names of the files in the directory of a process.
const (
	stdoutName = "stdout"
	stderrName = "stderr"
	recordName = "process"
)

// attached is a process that runs, whoever started it.
type attached struct {
	process process.Ref
	dir     string        // of the socket
	result  string        // see Process.Result
	exited  chan struct{} // closed when the process has ended
	ended   chan struct{} // closed when it has ended or is no longer watched
	detach  context.CancelFunc
	context context.Context // until detach
	// abort stops the watch of the caller's context. It reports false if that has ended. A process of an
	// earlier agent is detached then.
	abort  func() bool
	stdout *tail
	stderr *tail
	logs   sync.WaitGroup // the readers of both, for a process of an earlier agent
}

func newAttached() *attached {
	ctx, cancel := context.WithCancel(context.Background())
	return &attached{
		exited:  make(chan struct{}),
		ended:   make(chan struct{}),
		detach:  cancel,
		context: ctx,
		abort:   func() bool { return true },
	}
}

// watch waits for the end of the process in the background. reap, if there is one, takes the exit status.
func (a *attached) watch(ref process.Ref, reap func() string) {
	a.process = ref
	go func() {
		defer close(a.ended)
		// Wait needs a pidfd, which a machine without free files does not give. An error does not mean that
		// the process has ended.
		for ref.Wait(a.context) != nil {
			if !backoff.Sleep(a.context, watchRetry) {
				return
			}
		}
		if reap != nil {
			a.result = reap()
		}

		// The result is set before, so a reader of exited may read it without a lock.
		close(a.exited)
	}()
}

// openTails opens the output of a process of an earlier agent. Somebody has to read it, or it would grow.
func (a *attached) openTails() (err error) {
	a.stdout, err = openTail(filepath.Join(a.dir, stdoutName), a.ended)
	if err != nil {
		return err
	}
	a.stderr, err = openTail(filepath.Join(a.dir, stderrName), a.ended)
	return err
}

// record returns what the next agent needs to find the process. connect has the address from the handshake.
func (a *attached) record(c *goplugin.ReattachConfig) (Reattach, error) {
	boot, err := process.BootID()
	return Reattach{
		Process: a.process,
		BootID:  boot,
		Network: c.Addr.Network(),
		Address: c.Addr.String(),
		Dir:     a.dir,
	}, err
}

// explain adds what the process wrote last to its standard error, unless the error has it already.
func (a *attached) explain(err error) error {
	if a.stderr == nil {
		return err
	}
	text := a.stderr.last()
	if text == "" || strings.Contains(err.Error(), text) {
		return err
	}
	text = lastWords(text)
	return fmt.Errorf("%w; its standard error ends with %q", err, text)
}

// close closes the files of a process that has ended.
func (a *attached) close() {
	// The readers end by themselves: ended is closed.
	a.logs.Wait()
	for _, t := range []*tail{a.stdout, a.stderr} {
		if t != nil {
			_ = t.file.Close()
		}
	}
}

// Wait implements runner.AttachedRunner. It returns also when the process is no longer watched.
func (a *attached) Wait(context.Context) error {
	<-a.ended
	return nil
}

// Kill implements runner.AttachedRunner. It does nothing to a detached process. It detaches one that does not
// end, so that no caller waits for it.
func (a *attached) Kill(ctx context.Context) error {
	// A later agent may use a detached process.
	if a.context.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	err := a.process.Kill(ctx)
	if err != nil {
		a.detach()
	}
	return err
}

// ID implements runner.AttachedRunner. It is empty before the start.
func (a *attached) ID() string {
	if a.process.PID == 0 {
		return ""
	}
	return fmt.Sprint(a.process.PID)
}

// PluginToHost implements runner.AddrTranslator: a plugin runs in the agent's namespaces.
func (a *attached) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.AddrTranslator.
func (a *attached) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// processRunner starts a process in a session of its own. Its output goes to files, because a process that
// outlives the agent must not write into a pipe without a reader.
type processRunner struct {
	*attached
	ctx context.Context // ends a start
	cmd *exec.Cmd
}

func newRunner(ctx context.Context, a *attached, cmd *exec.Cmd) (*processRunner, error) {
	var err error
	a.stdout, err = newTail(filepath.Join(a.dir, stdoutName), a.ended)
	if err != nil {
		return nil, err
	}

	a.stderr, err = newTail(filepath.Join(a.dir, stderrName), a.ended)
	if err != nil {
		return nil, err
	}

	cmd.Stdout = a.stdout.file
	cmd.Stderr = a.stderr.file

	// A signal to the agent's session must not end a plugin that outlives the agent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return &processRunner{
		attached: a,
		ctx:      ctx,
		cmd:      cmd,
	}, nil
}

// Start implements runner.Runner.
func (r *processRunner) Start(context.Context) error {
	err := r.cmd.Start()
	if err != nil {
		// The readers of the output end with it.
		close(r.ended)
		return err
	}

	ref, err := process.RefOf(r.cmd.Process.Pid)
	if err == nil {
		err = r.writeRecord(ref)
	}
	if err != nil { // it cannot be watched, or found again
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		close(r.ended)
		return err
	}

	r.watch(ref, func() string {
		_ = r.cmd.Wait()
		return r.cmd.ProcessState.String()
	})
	// The end of ctx ends a start that hangs in the handshake. connect calls abort after it.
	r.abort = context.AfterFunc(r.ctx, func() { _ = r.Kill(context.Background()) })
	return nil
}

// writeRecord names the process in its directory, until it is recorded in the store of the node.
func (r *processRunner) writeRecord(ref process.Ref) error {
	boot, err := process.BootID()
	if err != nil {
		return err
	}
	text, err := json.Marshal(Reattach{Process: ref, BootID: boot})
	if err != nil {
		return err
	}

	// The file needs no sync: a crash of the machine ends the process, too.
	return os.WriteFile(filepath.Join(r.dir, recordName), text, 0o600)
}

// Diagnose implements runner.Runner: the end of what the process wrote to its standard error.
func (r *processRunner) Diagnose(context.Context) string { return r.stderr.last() }

// Stdout implements runner.Runner.
func (r *processRunner) Stdout() io.ReadCloser { return &lines{tail: r.stdout} }

// Stderr implements runner.Runner.
func (r *processRunner) Stderr() io.ReadCloser { return r.stderr }

// Name implements runner.Runner.
func (r *processRunner) Name() string { return r.cmd.Path }
