package hostpath

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"google.golang.org/grpc/codes"
)

// idPattern is the shape of our ids: kind, chance, and the node they were made on.
var idPattern = regexp.MustCompile(`^(vol|snap)-[0-9a-f]{20}-[0-9a-f]{8}$`)

// newID makes an id: a safe path component, unique over all nodes.
func (d *driver) newID(kind string) string {
	b := make([]byte, 10)
	_, _ = rand.Read(b) // never fails
	return kind + "-" + hex.EncodeToString(b) + "-" + nodeMark(d.cfg.NodeID)
}

func nodeMark(nodeID string) string {
	sum := sha256.Sum256([]byte(nodeID))
	return hex.EncodeToString(sum[:4])
}

// otherNodeError is the answer for a berth ID that another node made: the caller has to call that node. It is
// nil for any other.
func (d *driver) otherNodeError(id string) error {
	if idPattern.MatchString(id) && id[len(id)-8:] != nodeMark(d.cfg.NodeID) {
		return fail(codes.Unavailable, "%s is on another node than %s", id, d.cfg.NodeID)
	}
	return nil
}

// volume finds a volume that is ready.
func (d *driver) volume(id string) (*volume, error) {
	return findReady(d, d.store.volumes, "volume", id)
}

// snapshot finds a snapshot that is ready.
func (d *driver) snapshot(id string) (*snapshot, error) {
	return findReady(d, d.store.snapshots, "snapshot", id)
}

func findReady[R row](d *driver, rows *recordDir[R], noun, id string) (none R, err error) {
	if id == "" {
		return none, invalidf("%s_id is missing", noun)
	}
	if r, ok := rows.getRecord(id); ok && r.head().State == stateReady {
		return r, nil
	}
	if err := d.otherNodeError(id); err != nil {
		return none, err
	}
	return none, fail(codes.NotFound, "no %s %s on node %s", noun, id, d.cfg.NodeID)
}
