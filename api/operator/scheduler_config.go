package operator

import (
	"context"
	"net/url"
	"strconv"

	"berth/api"
	"berth/structs/cluster"
)

const schedulerConfigPath = "/v1/operator/scheduler/configuration"

var schedulerConfig = api.NewEndpoint(&table, api.Get, schedulerConfigPath,
	api.ServeMethod(cluster.SchedulerConfigGet, nil, api.Whole))

// GetSchedulerConfig reads the configuration of the scheduler.
func GetSchedulerConfig(ctx context.Context, c *api.Client, q *api.Query) (
	*cluster.SchedulerConfiguration, *api.Meta, error,
) {
	answer, meta, err := schedulerConfig.Fetch(ctx, c, "", q)
	if err != nil {
		return nil, meta, err
	}
	return answer.SchedulerConfig, meta, nil
}

var schedulerConfigSet = api.NewEndpoint(&table, api.Put, schedulerConfigPath,
	api.ServeMethod(cluster.SchedulerConfigSet, bindSchedulerConfig, api.Whole))

// bindSchedulerConfig reads the configuration from the body. ?cas is the index that the stored one must have.
func bindSchedulerConfig(c *api.Call, req *cluster.SchedulerConfigRequest) (err error) {
	err = c.DecodeBody(&req.Config)
	if err != nil {
		return err
	}
	req.CAS = c.Params().Has("cas")
	req.Config.ModifyIndex, err = api.NumberParam[uint64](c, "cas", 64)
	return err
}

// SetSchedulerConfig replaces the configuration of the scheduler. With cas it replaces only one that has the
// ModifyIndex of the new one, 0 for none; otherwise updated is false.
func SetSchedulerConfig(
	ctx context.Context, c *api.Client,
	config *cluster.SchedulerConfiguration,
	cas bool,
) (updated bool, err error) {
	params := url.Values{}
	if cas {
		params.Set("cas", strconv.FormatUint(config.ModifyIndex, 10))
	}
	answer, err := schedulerConfigSet.Send(ctx, c, api.Request{Query: params, Body: config})
	if err != nil {
		return false, err
	}
	return answer.Updated, nil
}
