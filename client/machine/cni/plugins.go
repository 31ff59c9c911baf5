package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/structs"
)

// maxOutput bounds what a plugin may write.
const maxOutput = 1 << 20

// outputDelay bounds the wait for the output of a plugin after its end, which its children may hold open.
const outputDelay = 5 * time.Second

// plugins calls the plugins of one attachment for libcni. Each of them inherits the lock.
type plugins struct {
	version.PluginDecoder
	lock *os.File
	done func(result []byte) error // takes the result of each plugin that has attached
	// previous is given to a plugin that detaches if libcni has no result of the attachment.
	previous []byte
}

// FindInPath implements invoke.Exec.
func (p *plugins) FindInPath(plugin string, paths []string) (string, error) {
	return invoke.FindInPath(plugin, paths)
}

// ExecPlugin implements invoke.Exec.
func (p *plugins) ExecPlugin(
	ctx context.Context, path string, stdin []byte, environ []string,
) ([]byte, error) {
	detaches := slices.Contains(environ, "CNI_COMMAND=DEL")
	if detaches && len(p.previous) > 0 {
		var err error
		stdin, err = withPrevious(stdin, p.previous)
		if err != nil {
			return nil, err
		}
	}

	var out, problems bounded
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = environ
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout = &out
	cmd.Stderr = &problems
	// It holds the lock until its end, also if the agent is killed.
	cmd.ExtraFiles = []*os.File{p.lock}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} // a signal to the agent's group does not end it
	cmd.WaitDelay = outputDelay
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, structs.Timeoutf("plugin %s did not end in time: %w", path, ctx.Err())
	case err != nil:
		return nil, pluginError(path, err, out.kept, problems.kept)
	case out.cut:
		return nil, fmt.Errorf("plugin %s: its result has more than %d bytes", path, maxOutput)
	}

	// Only a plugin that attaches has a result to keep.
	if p.done != nil && slices.Contains(environ, "CNI_COMMAND=ADD") {
		err = p.done(out.kept)
	}

	return out.kept, err
}

// withPrevious adds a result to the configuration of a plugin that has none.
func withPrevious(stdin, result []byte) ([]byte, error) {
	var conf map[string]json.RawMessage
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return nil, err
	}
	if _, has := conf["prevResult"]; has {
		return stdin, nil
	}
	conf["prevResult"] = result
	return json.Marshal(conf)
}

// pluginError returns the error that a plugin has written, or else its output.
func pluginError(path string, err error, out, problems []byte) error {
	// A plugin that fails writes its error to the standard output (CNI spec).
	said := &types.Error{}
	if json.Unmarshal(out, said) == nil && said.Msg != "" {
		text := said.Msg
		if said.Details != "" {
			text += "; " + said.Details
		}
		return fmt.Errorf("plugin %s: %s", filepath.Base(path), structs.Cut(text, structs.MaxText))
	}
	text := structs.Cut(string(bytes.TrimSpace(problems)), structs.MaxText)
	return fmt.Errorf("plugin %s: %w: %s", filepath.Base(path), err, text)
}

// bounded keeps the first maxOutput bytes.
type bounded struct {
	kept []byte
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	fits := min(len(p), maxOutput-len(b.kept))
	b.kept = append(b.kept, p[:fits]...)
	b.cut = b.cut || fits < len(p)
	return len(p), nil
}

// lockPoll is the time between two attempts to take a lock.
const lockPoll = 20 * time.Millisecond

// lock takes the lock of a network. A plugin that an earlier agent called has it until its end.
func (n *Networks) lock(ctx context.Context, network string) (*os.File, error) {
	err := os.MkdirAll(n.dir, 0o700)
	if err != nil {
		return nil, err
	}

	path := filepath.Join(n.dir, "lock-"+filepath.Base(network))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	// flock has no timeout.
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}

		again := errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR)
		if again && backoff.Sleep(ctx, lockPoll) {
			continue
		}

		if again {
			err = structs.Timeoutf("another call of a plugin of network %q does not end: %w",
				network, ctx.Err())
		}

		return nil, errors.Join(err, f.Close())
	}
}

// isMissing reports whether a path leads to nothing.
func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
