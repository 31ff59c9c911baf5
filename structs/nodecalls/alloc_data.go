package nodecalls

import (
	"time"

	"berth/structs"
)

// AllocData reads a page of the data that an ended allocation leaves to its successor on another node. A node
// calls it at the servers. The error is unavailable while the data cannot be read, because the allocation has
// not ended or its node does not answer, and a failed precondition if the data is gone.
var AllocData = structs.Read[AllocDataRequest, AllocDataResponse]("Alloc.Data")

// ClientAllocData is the same call of the servers to the node that has the data.
var ClientAllocData = structs.Read[AllocDataRequest, AllocDataResponse]("ClientAlloc.Data")

// AllocDataRequest names the allocation that has ended, its successor, and the place in the data. A page
// begins after the file or directory with the path After ("": with the first) or, if Offset is above 0, at
// that byte of it.
type AllocDataRequest struct {
	AllocID   string
	Successor string // an allocation of the requesting node
	After     string
	Offset    int64
	NodeID    string
	SecretID  string
	structs.QueryOptions
}

// Credentials names the node and its secret.
func (r *AllocDataRequest) Credentials() (nodeID, secretID string) { return r.NodeID, r.SecretID }

// AllocDataResponse has the files and directories of a page, each directory before its content.
type AllocDataResponse struct {
	Entries []*AllocDataEntry
	Done    bool // nothing follows
	// Bytes and Files are the sums of all the data. The first page alone has them.
	Bytes int64 `json:",omitempty" codec:",omitempty"`
	Files int   `json:",omitempty" codec:",omitempty"`
	// Instead is the allocation that has the data in place of the requested one, which has ended before it
	// took over the data of its own predecessor.
	Instead string
	structs.QueryMeta
}

// AllocDataEntry is a file, a directory or a symbolic link, or a part of a file.
type AllocDataEntry struct {
	Path    string // below the directory of the allocation, for example alloc/data/log
	Mode    uint32 // st_mode: type and rights
	UID     uint32
	GID     uint32
	ModTime int64  // UnixNano
	Link    string // the target of a symbolic link
	Offset  int64  // of Data
	Data    string // bytes; the library decodes a []byte in small steps, and copies all of it for each
	More    bool   // the file has more bytes
}

// AllocDataWaits returns which ended allocations of a node may have data that a replacement has still to take
// over. The node keeps them.
var AllocDataWaits = structs.Read[AllocDataWaitsRequest, AllocDataWaitsResponse]("Alloc.DataWaits")

// AllocDataWaitsRequest names at most MaxAllocIDs allocations of the node.
type AllocDataWaitsRequest struct {
	AllocIDs []string
	NodeID   string
	SecretID string
	// Keep is the age, in the cluster time, from which the node gives up the data of an ended allocation; 0:
	// none.
	Keep time.Duration `json:",omitempty"`
	structs.QueryOptions
}

// Credentials names the node and its secret.
func (r *AllocDataWaitsRequest) Credentials() (nodeID, secretID string) { return r.NodeID, r.SecretID }

// AllocDataWaitsResponse has the replacement of each awaited allocation, "" if it has no place yet.
type AllocDataWaitsResponse struct {
	Waits map[string]string
	structs.QueryMeta
}

// Bounds of the data that one allocation takes over from another node. Its node bounds the size.
const (
	MaxDataFiles     = 1 << 18 // files and directories
	MaxDataPath      = 4095    // bytes of a path
	AllocDataPage    = 1 << 20 // bytes of a page, about
	AllocDataEntries = 2048    // of a page
)
