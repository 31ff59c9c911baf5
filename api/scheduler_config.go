package api

import (
	"context"
	"net/url"
	"strconv"

	"berth/structs/cluster"
)

const schedulerConfigPath = "/v1/operator/scheduler/configuration"

var schedulerConfig = NewEndpoint(Get, schedulerConfigPath,
	ServeMethod(cluster.SchedulerConfigGet, nil, Whole))

// SchedulerConfig reads the configuration of the scheduler.
func (c *Client) SchedulerConfig(ctx context.Context, q *Query) (
	*cluster.SchedulerConfiguration, *Meta, error,
) {
	answer, meta, err := schedulerConfig.Fetch(ctx, c, "", q)
	if err != nil {
		return nil, meta, err
	}
	return answer.SchedulerConfig, meta, nil
}

var schedulerConfigSet = NewEndpoint(Put, schedulerConfigPath,
	ServeMethod(cluster.SchedulerConfigSet, bindSchedulerConfig, Whole))

// bindSchedulerConfig reads the configuration from the body. ?cas is the index that the stored one must have.
func bindSchedulerConfig(c *Call, req *cluster.SchedulerConfigRequest) (err error) {
	err = c.DecodeBody(&req.Config)
	if err != nil {
		return err
	}
	req.CAS = c.Params().Has("cas")
	req.Config.ModifyIndex, err = numberParam[uint64](c, "cas", 64)
	return err
}

// SetSchedulerConfig replaces the configuration of the scheduler. With cas it replaces only one that has the
// ModifyIndex of the new one, 0 for none; otherwise updated is false.
func (c *Client) SetSchedulerConfig(
	ctx context.Context,
	config *cluster.SchedulerConfiguration,
	cas bool,
) (updated bool, err error) {
	params := url.Values{}
	if cas {
		params.Set("cas", strconv.FormatUint(config.ModifyIndex, 10))
	}
	answer, err := schedulerConfigSet.Send(ctx, c, Request{Query: params, Body: config})
	if err != nil {
		return false, err
	}
	return answer.Updated, nil
}
