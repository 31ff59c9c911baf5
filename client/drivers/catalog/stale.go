package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/client/store"
)

// KillOthers kills the processes of earlier agents whose plugins are not wanted any more, and processes that
// an earlier agent started and did not record. No Supervisor of the catalog may run.
func (c *Catalog) KillOthers(ctx context.Context, records *store.DB, wanted func(name string) bool) error {
	all, err := processes.All(records, "")
	faults := []error{err}
	kept := map[string]bool{}
	for _, r := range all {
		if wanted(r.Key) {
			kept[r.Value.Dir] = true
			continue
		}

		err := kill(ctx, *r.Value)
		if err == nil {
			// The record goes after its process: a crash in between only repeats the kill.
			err = processes.Delete(records, r.Key)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("plugin %s: %w", r.Key, err))
		}
	}

	return errors.Join(append(faults, c.killUnrecorded(ctx, kept)...)...)
}

// killUnrecorded kills the processes of the directories that are not kept, and removes these.
func (c *Catalog) killUnrecorded(ctx context.Context, kept map[string]bool) (faults []error) {
	entries, err := os.ReadDir(c.cfg.Sockets)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []error{err}
	}

	for _, e := range entries {
		dir := filepath.Join(c.cfg.Sockets, e.Name())
		// Other entries are the directories of helpers, which outlive the process of their driver.
		if kept[dir] || !strings.HasPrefix(e.Name(), socketDir) || c.isProgram(e.Name()) {
			continue
		}

		err := killOf(ctx, dir)
		if err != nil {
			faults = append(faults, err)
		}
	}

	return faults
}

// isProgram reports whether a file of that name is in the directory of plugins. The directory of that name
// then has the sockets of its helpers.
func (c *Catalog) isProgram(name string) bool {
	if c.cfg.Dir == "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(c.cfg.Dir, name))
	return err == nil
}

// killOf kills the process that the file in a directory names, and removes the directory. The agent was
// killed in the moment of a start if there is no such file.
func killOf(ctx context.Context, dir string) error {
	var record Reattach
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err != nil {
		return os.RemoveAll(dir)
	}
	record.Dir = dir
	return kill(ctx, record)
}
