package raftfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"berth/internal/files"
	"berth/structs"
)

const idName = "server-id"

var idForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ServerID returns the server's id in the Raft configuration. It is made once and kept in the data directory.
// A server with another id would be another member of its cluster, so an id that is lost or damaged is an
// error.
func ServerID(dataDir string) (string, error) {
	record, err := readMark(dataDir)
	if err != nil {
		return "", err
	}

	path := filepath.Join(dataDir, idName)
	b, err := readLimited(path, 4096)

	// Neither the file nor the mark has an ID, so this server has never had a log.
	if errors.Is(err, os.ErrNotExist) && record.id == "" {
		id := structs.NewID()
		if err := files.WriteDurable(path, []byte(id+"\n")); err != nil {
			return "", fmt.Errorf("keeping the server's id: %w", err)
		}
		return id, nil
	}

	id := strings.TrimSpace(string(b))
	switch {
	case err == nil && record.id != "" && id == record.id:
		return id, nil
	// The mark has the ID, so nothing is lost: the operator can write the file again.
	case record.id != "":
		fault := fmt.Sprintf("the server's id %q is not the one that its log belongs to", id)
		remedy := fmt.Sprintf("Write the line %s into the file and start the server again", record.id)
		return "", remedyError(path, fault, remedy)
	case err != nil:
		return "", damageError(dataDir, path, "the file cannot be read: %w", err)
	case !idForm.MatchString(id):
		return "", damageError(dataDir, path, "the file does not hold a server's id")
	}

	return id, nil
}

// hasLog reports whether the data directory holds anything of a log or of snapshots.
func hasLog(dataDir string) bool {
	raftDir := filepath.Join(dataDir, "raft")
	walDir := filepath.Join(raftDir, "wal")

	// The pattern is valid, so Glob has no error.
	segments, _ := filepath.Glob(filepath.Join(walDir, "*.wal"))
	snapshots, _ := filepath.Glob(filepath.Join(raftDir, "snapshots", "*", snapshotMeta))
	return len(segments) > 0 ||
		len(snapshots) > 0 ||
		pathExists(filepath.Join(walDir, metaName))
}
