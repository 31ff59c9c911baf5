package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	stdrpc "net/rpc"
	"os"
	"slices"
	"time"

	"berth/bench/shape"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// preparation prepares an operation on servers with rows. If it returns no operation, it has done the work
// itself.
type preparation func(*config) (operation, error)

// operations has the preparation of each value of -op.
var operations = map[string]preparation{
	"ping":        ping,
	"nodes":       registerNodes,
	"volumes":     registerVolumes,
	"shared":      registerShared,
	"allocs":      placeAndStoreAllocs,
	"register":    registerAgain,
	"updatecsi":   updateCSI,
	"heartbeat":   heartbeat,
	"claimwrite":  claim(structs.ClaimWrite),
	"claimcycle":  claimCycle,
	"claimeach":   claimEach,
	"claimread":   claim(structs.ClaimRead),
	"release":     release(structs.ClaimWrite),
	"releaseread": release(structs.ClaimRead),
	"plugin":      getPlugin,
	"list":        list(0),
	"page":        list(100),
	"get":         get,
	"http":        getHTTP,
	"stale":       staleGet,
}

// leanResponse decodes only the index of an answer, so that the load costs less than the work.
type leanResponse struct{ Index uint64 }

func call[Req, Resp any](c *stdrpc.Client, m structs.Method[Req, Resp], req *Req) error {
	agenttest.Stamp(req)
	return c.Call(m.Name, req, &leanResponse{})
}

// boundedTo bounds an operation to n requests.
func boundedTo(c *config, n int, op operation) operation {
	c.max = int64(n)
	c.time = time.Hour
	return op
}

func ping(*config) (operation, error) {
	return func(c *stdrpc.Client, _ int) error {
		return call(c, cluster.StatusPing, &structs.QueryRequest{})
	}, nil
}

// registerNodes registers each node once.
func registerNodes(cfg *config) (operation, error) {
	return boundedTo(cfg, cfg.nodes-cfg.offset, register(cfg, 0)), nil
}

// registerAgain registers nodes again with changed reports.
func registerAgain(cfg *config) (operation, error) {
	return register(cfg, int(time.Now().Unix())), nil
}

func register(cfg *config, rev int) operation {
	return func(c *stdrpc.Client, n int) error {
		i := (cfg.offset + n) % cfg.nodes
		return call(c, structs.NodeRegister,
			shape.Register(i, rev+n, shape.Plugin))
	}
}

func updateCSI(cfg *config) (operation, error) {
	rev := int(time.Now().Unix())
	return func(c *stdrpc.Client, n int) error {
		i := (cfg.offset + n) % cfg.nodes
		return call(c, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:   shape.UUID("node", i),
			SecretID: shape.UUID("secret", i),
			Upserts:  []*structs.CSIPluginInstance{shape.Instance(shape.Plugin, i, rev+n)},
		})
	}, nil
}

func heartbeat(cfg *config) (operation, error) {
	return func(c *stdrpc.Client, n int) error {
		i := n % cfg.nodes
		return call(c, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{
			NodeID:   shape.UUID("node", i),
			SecretID: shape.UUID("secret", i),
			Status:   structs.NodeReady,
		})
	}, nil
}

func registerVolumes(cfg *config) (operation, error) {
	const each = 100
	return boundedTo(cfg, (cfg.volumes+each-1)/each, func(c *stdrpc.Client, n int) error {
		req := &structs.CSIVolumeRegisterRequest{}
		for i := n * each; i < min((n+1)*each, cfg.volumes); i++ {
			req.Volumes = append(req.Volumes, shape.Volume(shape.VolumeID(i), i))
		}
		return call(c, structs.CSIVolumeRegister, req)
	}), nil
}

func registerShared(cfg *config) (operation, error) {
	cfg.clients = 1
	return boundedTo(cfg, 1, func(c *stdrpc.Client, _ int) error {
		return call(c, structs.CSIVolumeRegister, &structs.CSIVolumeRegisterRequest{
			Volumes: []*structs.CSIVolume{shape.Volume(shape.SharedVolume, 1<<20)},
		})
	}), nil
}

// placedAlloc is an allocation for which claims can be made.
type placedAlloc struct{ ID, NodeID string }

// placeAndStoreAllocs runs a job and keeps where its allocations are.
func placeAndStoreAllocs(cfg *config) (operation, error) {
	start := time.Now()
	allocs, err := placeAllocs(rpc.Dial, cfg.rpc, cfg.allocs)
	if err != nil {
		return nil, err
	}
	fmt.Printf("allocs placed=%d in %s\n",
		len(allocs), time.Since(start).Round(time.Millisecond))
	b, err := json.Marshal(allocs)
	if err != nil {
		return nil, err
	}
	return nil, os.WriteFile(cfg.allocsFile, b, 0o600)
}

// placeAllocs runs a job with a number of allocations and waits until all are placed.
func placeAllocs(dialer rpc.Dialer, addr string, count int) ([]placedAlloc, error) {
	c, err := dial(dialer, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := call(c, structs.JobRegister, &structs.JobRegisterRequest{Job: shape.Job(count)}); err != nil {
		return nil, err
	}
	var resp struct{ Allocations []placedAlloc }
	end := time.Now().Add(5 * time.Minute)
	for ; len(resp.Allocations) < count; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			return nil, fmt.Errorf("placed only %d of %d", len(resp.Allocations), count)
		}
		resp.Allocations = nil
		if err := c.Call(structs.JobAllocations.Name, &structs.JobGetRequest{JobID: shape.JobID},
			&resp); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(resp.Allocations, func(a, b placedAlloc) int {
		return cmp.Compare(a.ID, b.ID)
	})
	return resp.Allocations, nil
}

// claimants has the inputs of the claims.
type claimants struct {
	allocs  []placedAlloc
	secrets map[string]string // by node
}

func newClaimants(allocs []placedAlloc, nodes int) *claimants {
	w := &claimants{
		allocs:  allocs,
		secrets: map[string]string{},
	}
	for i := range nodes {
		w.secrets[shape.UUID("node", i)] = shape.UUID("secret", i)
	}
	return w
}

func loadClaimants(cfg *config) (*claimants, error) {
	b, err := os.ReadFile(cfg.allocsFile)
	if err != nil {
		return nil, err
	}
	var allocs []placedAlloc
	err = json.Unmarshal(b, &allocs)
	return newClaimants(allocs, cfg.nodes), err
}

// target is the n-th allocation with the volume it uses.
func (w *claimants) target(cfg *config, n int, mode string) (placedAlloc, string, error) {
	i := cfg.offset + n
	if i >= len(w.allocs) || mode == structs.ClaimWrite && i >= cfg.volumes {
		return placedAlloc{}, "", errDone
	}
	if mode == structs.ClaimRead {
		return w.allocs[i], shape.SharedVolume, nil
	}
	return w.allocs[i], shape.VolumeID(i), nil
}

// claimRequest is the request by which an allocation claims a volume.
func (w *claimants) claimRequest(a placedAlloc, volume, mode string) *structs.CSIVolumeClaimRequest {
	cl := shape.Claim(volume, 0, mode)
	cl.AllocID = a.ID
	return &structs.CSIVolumeClaimRequest{
		NodeID:   a.NodeID,
		SecretID: w.secrets[a.NodeID],
		Claims:   []*structs.CSIClaim{cl},
	}
}

// releaseRequest is the request that releases it.
func (w *claimants) releaseRequest(a placedAlloc, volume string) *structs.CSIVolumeUnpublishRequest {
	return &structs.CSIVolumeUnpublishRequest{
		NodeID:   a.NodeID,
		SecretID: w.secrets[a.NodeID],
		Claims: []structs.CSIClaimKey{{
			Namespace: structs.DefaultNamespace,
			VolumeID:  volume,
			AllocID:   a.ID,
		}},
	}
}

// claim claims a volume for an allocation. A write claim has its own volume.
func claim(mode string) preparation {
	return forEachAlloc(mode, func(c *stdrpc.Client, w *claimants, a placedAlloc, volume string) error {
		return call(c, structs.CSIVolumeClaim, w.claimRequest(a, volume, mode))
	})
}

// release releases the claim of an allocation.
func release(mode string) preparation {
	return forEachAlloc(mode, func(c *stdrpc.Client, w *claimants, a placedAlloc, volume string) error {
		return call(c, structs.CSIVolumeUnpublish, w.releaseRequest(a, volume))
	})
}

// forEachAlloc prepares a request for each allocation and its volume.
func forEachAlloc(mode string,
	request func(c *stdrpc.Client, w *claimants, a placedAlloc, volume string) error,
) preparation {
	return func(cfg *config) (operation, error) {
		w, err := loadClaimants(cfg)
		return func(c *stdrpc.Client, n int) error {
			a, volume, err := w.target(cfg, n, mode)
			if err != nil {
				return err
			}
			return request(c, w, a, volume)
		}, err
	}
}

func getPlugin(*config) (operation, error) {
	return func(c *stdrpc.Client, _ int) error {
		req := &structs.CSIPluginGetRequest{ID: shape.Plugin}
		return call(c, structs.CSIPluginGet, req)
	}, nil
}

// list lists a page of volumes, all of them for 0.
func list(page int32) preparation {
	return func(*config) (operation, error) {
		return func(c *stdrpc.Client, _ int) error {
			req := &structs.CSIVolumeListRequest{}
			req.PerPage = page
			return call(c, structs.CSIVolumeList, req)
		}, nil
	}
}

func get(cfg *config) (operation, error) {
	return func(c *stdrpc.Client, n int) error {
		req := &structs.CSIVolumeGetRequest{ID: shape.VolumeID(n % cfg.volumes)}
		return call(c, structs.CSIVolumeGet, req)
	}, nil
}

func staleGet(cfg *config) (operation, error) {
	return func(c *stdrpc.Client, n int) error {
		req := &structs.CSIVolumeGetRequest{ID: shape.VolumeID(n % cfg.volumes)}
		req.AllowStale = true
		return call(c, structs.CSIVolumeGet, req)
	}, nil
}

// getHTTP gets a path of the HTTP API; the RPC connections stay idle.
func getHTTP(cfg *config) (operation, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: cfg.clients,
		DisableCompression: true}}
	return func(*stdrpc.Client, int) error {
		resp, err := client.Get("http://" + cfg.http + cfg.path)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		err = errors.Join(err, resp.Body.Close())
		if resp.StatusCode != http.StatusOK {
			err = errors.Join(err, fmt.Errorf("answered %s", resp.Status))
		}
		return err
	}, nil
}
