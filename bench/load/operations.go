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

	"berth/internal/benchshape"
	"berth/structs"
)

// operations has the operations of -op. A function that returns a nil operation has done its work itself.
var operations = map[string]func(*config) (operation, error){
	"ping": func(*config) (operation, error) {
		return func(c *stdrpc.Client, _ int) error {
			return call(c, structs.StatusPing, &structs.QueryRequest{})
		}, nil
	},
	"nodes": func(c *config) (operation, error) {
		return boundedTo(c, c.nodes-c.offset, register(c, 0)), nil
	},
	"volumes": registerVolumes,
	"shared":  registerShared,
	"allocs":  placeAndStoreAllocs,
	"register": func(c *config) (operation, error) {
		return register(c, int(time.Now().Unix())), nil
	},
	"updatecsi":   func(c *config) (operation, error) { return updateCSI(c), nil },
	"heartbeat":   func(c *config) (operation, error) { return heartbeat(c), nil },
	"claimwrite":  func(c *config) (operation, error) { return claim(c, structs.ClaimWrite) },
	"claimcycle":  claimCycle,
	"claimeach":   claimEach,
	"claimread":   func(c *config) (operation, error) { return claim(c, structs.ClaimRead) },
	"release":     func(c *config) (operation, error) { return release(c, structs.ClaimWrite) },
	"releaseread": func(c *config) (operation, error) { return release(c, structs.ClaimRead) },
	"plugin": func(*config) (operation, error) {
		return func(c *stdrpc.Client, _ int) error {
			return call(c, structs.CSIPluginGet,
				&structs.CSIPluginGetRequest{ID: benchshape.Plugin})
		}, nil
	},
	"list":  func(*config) (operation, error) { return list(0), nil },
	"page":  func(*config) (operation, error) { return list(100), nil },
	"get":   get,
	"http":  getHTTP,
	"stale": staleGet,
}

// leanResponse decodes only the index of an answer, so that the load costs less than the work.
type leanResponse struct{ Index uint64 }

func call[Req, Resp any](c *stdrpc.Client, m structs.Method[Req, Resp], req *Req) error {
	return c.Call(m.Name, req, &leanResponse{})
}

// boundedTo bounds an operation to n requests.
func boundedTo(c *config, n int, op operation) operation {
	c.max = int64(n)
	c.time = time.Hour
	return op
}

func register(cfg *config, rev int) operation {
	return func(c *stdrpc.Client, n int) error {
		return call(c, structs.NodeRegister, benchshape.Register((cfg.offset+n)%cfg.nodes, rev+n,
			benchshape.Plugin))
	}
}

func updateCSI(cfg *config) operation {
	rev := int(time.Now().Unix())
	return func(c *stdrpc.Client, n int) error {
		i := (cfg.offset + n) % cfg.nodes
		return call(c, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:   benchshape.UUID("node", i),
			SecretID: benchshape.UUID("secret", i),
			Upserts:  []*structs.CSIPluginInstance{benchshape.Instance(benchshape.Plugin, i, rev+n)},
		})
	}
}

func heartbeat(cfg *config) operation {
	return func(c *stdrpc.Client, n int) error {
		i := n % cfg.nodes
		return call(c, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{
			NodeID:   benchshape.UUID("node", i),
			SecretID: benchshape.UUID("secret", i),
			Status:   structs.NodeReady,
		})
	}
}

func registerVolumes(cfg *config) (operation, error) {
	const each = 100
	return boundedTo(cfg, (cfg.volumes+each-1)/each, func(c *stdrpc.Client, n int) error {
		req := &structs.CSIVolumeRegisterRequest{}
		for i := n * each; i < min((n+1)*each, cfg.volumes); i++ {
			req.Volumes = append(req.Volumes, benchshape.Volume(benchshape.VolumeID(i), i))
		}
		return call(c, structs.CSIVolumeRegister, req)
	}), nil
}

func registerShared(cfg *config) (operation, error) {
	cfg.clients = 1
	return boundedTo(cfg, 1, func(c *stdrpc.Client, _ int) error {
		return call(c, structs.CSIVolumeRegister, &structs.CSIVolumeRegisterRequest{
			Volumes: []*structs.CSIVolume{benchshape.Volume(benchshape.SharedVolume, 1<<20)},
		})
	}), nil
}

// placedAlloc is an allocation for which claims can be made.
type placedAlloc struct{ ID, NodeID string }

// placeAndStoreAllocs runs a job and keeps where its allocations are.
func placeAndStoreAllocs(cfg *config) (operation, error) {
	start := time.Now()
	allocs, err := placeAllocs(cfg.rpc, cfg.allocs)
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
func placeAllocs(addr string, count int) ([]placedAlloc, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := call(c, structs.JobRegister, &structs.JobRegisterRequest{Job: benchshape.Job(count)}); err != nil {
		return nil, err
	}
	var resp struct{ Allocations []placedAlloc }
	end := time.Now().Add(5 * time.Minute)
	for ; len(resp.Allocations) < count; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			return nil, fmt.Errorf("placed only %d of %d", len(resp.Allocations), count)
		}
		resp.Allocations = nil
		if err := c.Call(structs.JobAllocations.Name, &structs.JobGetRequest{JobID: benchshape.JobID},
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
		w.secrets[benchshape.UUID("node", i)] = benchshape.UUID("secret", i)
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
		return w.allocs[i], benchshape.SharedVolume, nil
	}
	return w.allocs[i], benchshape.VolumeID(i), nil
}

// claimRequest is the request by which an allocation claims a volume.
func (w *claimants) claimRequest(a placedAlloc, volume, mode string) *structs.CSIVolumeClaimRequest {
	cl := benchshape.Claim(volume, 0, mode)
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
func claim(cfg *config, mode string) (operation, error) {
	w, err := loadClaimants(cfg)
	return func(c *stdrpc.Client, n int) error {
		a, volume, err := w.target(cfg, n, mode)
		if err != nil {
			return err
		}
		return call(c, structs.CSIVolumeClaim, w.claimRequest(a, volume, mode))
	}, err
}

func release(cfg *config, mode string) (operation, error) {
	w, err := loadClaimants(cfg)
	return func(c *stdrpc.Client, n int) error {
		a, volume, err := w.target(cfg, n, mode)
		if err != nil {
			return err
		}
		return call(c, structs.CSIVolumeUnpublish, w.releaseRequest(a, volume))
	}, err
}

func list(page int32) operation {
	return func(c *stdrpc.Client, _ int) error {
		return call(c, structs.CSIVolumeList,
			&structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{PerPage: page}})
	}
}

func get(cfg *config) (operation, error) {
	return func(c *stdrpc.Client, n int) error {
		return call(c, structs.CSIVolumeGet,
			&structs.CSIVolumeGetRequest{ID: benchshape.VolumeID(n % cfg.volumes)})
	}, nil
}

func staleGet(cfg *config) (operation, error) {
	return func(c *stdrpc.Client, n int) error {
		return call(c, structs.CSIVolumeGet, &structs.CSIVolumeGetRequest{
			ID:           benchshape.VolumeID(n % cfg.volumes),
			QueryOptions: structs.QueryOptions{AllowStale: true},
		})
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
