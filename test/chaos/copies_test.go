package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"berth/api"
	"berth/api/nodes"
	"berth/structs"
)

// copyMember starts a copy of the disk of a machine on another machine, while the first one runs on or is cut
// off. A copied node may take the place of the first one, which has lost its volumes by then or never had
// one. So, at the end, an operator says that the machine of the copy is off.
func copyMember(ctx context.Context, w *world, m *member, f *fault) (func() error, error) {
	twin := w.newMember(fmt.Sprintf("%sc%d", m.name, f.number), 100+f.number%100, m.server)
	twin.mayEnd.Store(true) // the disk is one of a machine that runs
	err := errors.Join(twin.prepare(), m.copyDisk(twin))
	if !m.server { // a server would be rejected for its name
		twin.args = append(twin.args, "-name", m.name)
	}
	heal := nothing
	if err == nil && f.choice%2 == 0 {
		heal, err = cut(true, true)(ctx, w, m, f)
	}
	if err == nil {
		err = twin.powerOn()
	}
	w.note("#%d %s is a copy of %s, which is cut off: %v", f.number, twin.name, m.name, f.choice%2 == 0)
	return func() error {
		twin.powerOff()
		err := errors.Join(heal(), unix.Unmount(twin.path("data"), unix.MNT_DETACH))
		if !m.server {
			w.confirmCopy(m, twin, f)
		}
		return err
	}, err
}

// confirmCopy waits until the node of a copied disk is ready on its first machine, also when the run ends. If
// the copy has taken the place of that one, an operator says that it is off. Otherwise that would be no
// truth.
func (w *world) confirmCopy(m, twin *member, f *fault) {
	var off time.Time // since when the machine is, zero: it is on
	err := await(wordWithin, func() error {
		// The fence device may switch the machine off, and this fault keeps others from switching it on.
		_, first := m.boot()
		switch {
		case first != 0:
			off = time.Time{}
		case off.IsZero():
			off = time.Now()
		case time.Since(off) > fencedFor:
			err := m.powerOn()
			if err != nil {
				return err
			}
		}

		leader := w.leader()
		if leader == nil {
			return errors.New("no leader")
		}
		n, err := w.node(leader.client, m)
		switch {
		case err != nil:
			return err
		case n.Status == structs.NodeReady && n.Address == m.addr:
			return nil
		case n.Address != twin.addr:
			return fmt.Errorf("the node is %s at %s", n.Status, n.Address)
		}
		return w.atSocket(m, func(ctx context.Context, c *api.Client, id string) error {
			return nodes.ConfirmLost(ctx, c, id, nodes.FenceOrder{By: "chaos", Why: "the copy of its disk is off"})
		})
	})
	w.note("#%d the node of %s after its copy: %s", f.number, m.name, outcome(err))
}

// copyDisk copies the files of the agent, its certificate among them, to the disk of another machine. The
// agent stands still meanwhile.
func (m *member) copyDisk(to *member) error {
	pid, _ := m.running()
	if pid != 0 && unix.Kill(pid, unix.SIGSTOP) == nil {
		defer func() { _ = unix.Kill(pid, unix.SIGCONT) }()
	}
	return errors.Join(
		copyFiles(m.etc(), to.etc()),
		copyFiles(m.path("data", "berth"), to.path("data", "berth")))
}

// copyFiles copies the files below a directory, while tasks change them.
func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(from, path)
		target := filepath.Join(to, inside)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(target, 0o711)
		case !d.Type().IsRegular():
			return nil
		}
		info, infoErr := d.Info()
		content, err := os.ReadFile(path)
		switch err = errors.Join(infoErr, err); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm()) // of a program, too
	})
}
