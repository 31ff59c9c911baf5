package hostpath

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"

	"berth/plugins/hostpath/disk"
)

// idPattern matches the ids of this driver: kind, random part, and mark of the node.
var idPattern = regexp.MustCompile(`^(vol|snap|group)-[0-9a-f]{20}-[0-9a-f]{8}$`)

// newRecord returns the head of a new record.
func (d *driver) newRecord(kind, name string) disk.Head {
	return disk.Head{
		ID:    d.newID(kind),
		Name:  name,
		State: disk.Creating,
	}
}

// newID makes an id: a safe path component, unique over all nodes.
func (d *driver) newID(kind string) string {
	b := make([]byte, 10)
	_, _ = rand.Read(b) // never fails
	return kind + "-" + hex.EncodeToString(b) + "-" + nodeMark(d.cfg.NodeID)
}

// nodeMark shortens the ID of a node. With equal marks a node would answer for the volumes of another one,
// and report one as deleted that it never had: 32 bits make that unlikely.
func nodeMark(nodeID string) string {
	sum := sha256.Sum256([]byte(nodeID))
	return hex.EncodeToString(sum[:4])
}

// otherNodeError returns the error for the id of another node: the caller has to call that node. It returns
// nil for every other id.
func (d *driver) otherNodeError(id string) error {
	if idPattern.MatchString(id) && !strings.HasSuffix(id, nodeMark(d.cfg.NodeID)) {
		return disk.Faultf(codes.Unavailable,
			"%s is on another node than %s", id, d.cfg.NodeID)
	}
	return nil
}

// Volume finds a volume that is ready.
func (d *driver) volume(id string) (*disk.Volume, error) {
	return findReady(d, d.store.Volumes, "volume", id)
}

// Snapshot finds a snapshot that is ready.
func (d *driver) snapshot(id string) (*disk.Snapshot, error) {
	return findReady(d, d.store.Snapshots, "snapshot", id)
}

func findReady[R disk.Row](
	d *driver, rows *disk.Table[R], noun, id string,
) (none R, err error) {
	if id == "" {
		return none, disk.Invalidf("%s_id is missing", noun)
	}
	r, ok := rows.Get(id)
	if ok && r.Header().State == disk.Ready {
		return r, nil
	}
	err = d.otherNodeError(id)
	if err == nil {
		err = disk.Faultf(codes.NotFound,
			"no %s %s on node %s", noun, id, d.cfg.NodeID)
	}
	return none, err
}
