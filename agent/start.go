package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/internal/files"
)

// spaceInterval is the time between two starts on a full disk.
const spaceInterval = 2 * time.Second

// newWithSpace is New on a disk that may be full. An agent that has begun before needs no space for its
// start. The first one of a node or a server does: it waits, and goes on by itself.
func newWithSpace(ctx context.Context, cfg Config, logger hclog.Logger) (*Agent, error) {
	told := ""
	for {
		a, err := New(ctx, cfg, logger)
		if !files.IsNoSpace(err) {
			if told != "" && err == nil {
				logger.Info("the disk has space for the start of the agent, going on")
			}
			return a, err
		}

		file, dir := placeOf(err, cfg.DataDir)
		if file != told {
			told = file
			logger.Error("no space on the disk for the start of the agent, waiting for it",
				"file", file, "disk", files.DescribeDisk(ctx, dir), "error", err)
		}
		if !backoff.Sleep(ctx, spaceInterval) {
			return nil, err
		}
	}
}

// placeOf returns the file that an error names, and a folder of its file system: the folder of all data, if
// the file is below it, else the next one above the file. Without a name both are the folder of all data.
func placeOf(err error, dataDir string) (file, dir string) {
	file = dataDir
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		file = path.Path
	case errors.As(err, &link):
		file = link.New
	}

	dir = file
	if strings.HasPrefix(file, dataDir+string(os.PathSeparator)) {
		dir = dataDir
	}
	// The folder may be what is to be made.
	for info, err := os.Stat(dir); err != nil || !info.IsDir(); info, err = os.Stat(dir) {
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return file, dir
}
