// load drives a Nomad server (or cluster) over its msgpack RPC on loopback.
//
// The wire is net/rpc with msgpack, one plain TCP connection per client. Reply
// bodies are decoded into small structs, so that the client stays cheap.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"berth/bench/peer/shape"
)

var (
	addrs     = flag.String("addr", "127.0.0.1:4647", "server RPC addresses, comma separated")
	httpAddr  = flag.String("http", "127.0.0.1:4646", "HTTP address")
	op        = flag.String("op", "", "operation")
	conc      = flag.Int("c", 1, "concurrent clients")
	dur       = flag.Duration("dur", 5*time.Second, "duration")
	maxOps    = flag.Int64("max", 0, "stop after this many operations (0: by time)")
	nodes     = flag.Int("nodes", 1000, "fleet size")
	vols      = flag.Int("vols", 10000, "volumes")
	allocs    = flag.Int("allocs", 0, "allocations wanted (setup-allocs)")
	allocFile = flag.String("allocfile", "allocs.json", "")
	vol       = flag.String("vol", shape.MultiReaderVol, "volume for claimread/volget")
	pids      = flag.String("pids", "", "server pids, to report CPU per operation")
	each      = flag.Int("each", 10, "readers of each volume (claimeach)")
	part      = flag.Int("part", 1600, "writers that take turns (claimcycle)")
	off       = flag.Int("off", 0, "offset of the first alloc/volume used")
	label     = flag.String("label", "", "printed first")
	auth      = flag.Bool("auth", false, "send node secrets (needed by v2)")
	region    = "global"
)

// operations has a function for each value of -op.
var operations = map[string]func(){
	"setup-nodes":     setupNodes,
	"setup-barenodes": setupBareNodes,
	"setup-vols":      setupVolumes,
	"setup-sharedvol": setupSharedVolume,
	"setup-allocs":    setupAllocs,
	"reg":             registerAgain,
	"hb":              heartbeat,
	"claimread":       claimRead,
	"claimeach":       claimEach,
	"relread":         releaseRead,
	"claimwrite":      claimWrite,
	"relwrite":        releaseWrite,
	"claimcycle":      claimCycle,
	"cycle":           claimAndUnpublish,
	"plugget":         getPlugin,
	"pluglist":        listPlugins,
	"vollist":         listVolumes,
	"vollist100":      listVolumePage,
	"volget":          getVolume,
	"ping":            ping,
	"http":            getHTTP,
}

func main() {
	flag.Parse()
	operation := operations[*op]
	if operation == nil {
		fmt.Println("unknown op")
		os.Exit(2)
	}
	operation()
}
