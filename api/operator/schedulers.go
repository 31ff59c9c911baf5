package operator

import (
	"context"

	"berth/api"
	"berth/structs"
	"berth/structs/access"
)

// loopID is the ID of the only worker of a server.
const loopID = "schedule"

// Workers are the workers of a server that process evaluations, in the shape of the dialect. berth has one
// loop, and it runs on the leader alone.
type Workers struct {
	ServerID   string   `json:"server_id"`
	Schedulers []Worker `json:"schedulers"`
}

// Worker is one worker. Status is Started on the leader, and Paused on every other server.
type Worker struct {
	ID                string   `json:"id"`
	EnabledSchedulers []string `json:"enabled_schedulers"`
	Started           string   `json:"started"` // always "": the loop begins with each leadership
	Status            string   `json:"status"`
	WorkloadStatus    string   `json:"workload_status"`
}

// WorkerConfig is the configuration of the workers of a server, in the shape of the dialect.
type WorkerConfig struct {
	ServerID          string   `json:"server_id"`
	NumSchedulers     int      `json:"num_schedulers"`
	EnabledSchedulers []string `json:"enabled_schedulers"`
}

// allSchedulers returns the kinds of evaluations of the loop, in the words of the dialect.
func allSchedulers() []string {
	return []string{structs.JobBatch, structs.JobService, structs.JobSystem, structs.JobSysBatch, "_core"}
}

var workers = api.NewEndpoint[*Workers](&table, api.Get, "/v1/agent/schedulers", serveWorkers,
	api.Needs(access.NeedsAgentRead))

func serveWorkers(c *api.Call) (any, error) {
	return at(c, func(p api.AgentPlace) (any, error) {
		leads, err := c.Agent.Place("", "leader")
		if err != nil && !structs.IsKind(err, structs.KindUnavailable) {
			return nil, err
		}
		status := "Paused"
		if leads.Here {
			status = "Started"
		}
		return &Workers{
			ServerID: p.AgentID,
			Schedulers: []Worker{{
				ID:                loopID,
				EnabledSchedulers: allSchedulers(),
				Status:            status,
				WorkloadStatus:    status,
			}},
		}, nil
	})
}

// SchedulerWorkers returns the workers of a server.
func SchedulerWorkers(ctx context.Context, c *api.Client, t Target) (*Workers, error) {
	return workers.Send(ctx, c, api.Request{Query: t.values()})
}

var workerConfig = api.NewEndpoint[*WorkerConfig](&table, api.Get, "/v1/agent/schedulers/config",
	serveWorkerConfig,
	api.Needs(access.NeedsAgentRead))

func serveWorkerConfig(c *api.Call) (any, error) {
	return at(c, func(p api.AgentPlace) (any, error) {
		return &WorkerConfig{ServerID: p.AgentID, NumSchedulers: 1, EnabledSchedulers: allSchedulers()}, nil
	})
}

// SchedulerConfig returns the configuration of the workers of a server.
func SchedulerConfig(ctx context.Context, c *api.Client, t Target) (*WorkerConfig, error) {
	return workerConfig.Send(ctx, c, api.Request{Query: t.values()})
}

var _ = table.Handle(api.Put, "/v1/agent/schedulers/config", rejectWorkerConfig,
	api.Needs(access.NeedsAgentWrite))

func rejectWorkerConfig(*api.Call) (any, error) {
	return nil, structs.Preconditionf("one loop of the leader processes the evaluations of all kinds, so " +
		"a server has no number of workers to set; " +
		"berth operator scheduler set-config -pause-eval-broker true pauses it")
}
