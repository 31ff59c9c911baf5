package api

import (
	"context"
	"net/url"
	"strconv"

	"berth/structs/admin"
)

const schedulerConfigPath = "/v1/operator/scheduler/configuration"

var schedulerConfig = route(get, schedulerConfigPath,
	serveMethod(admin.SchedulerConfigGet, nil, whole))

// SchedulerConfig reads the configuration of the scheduler.
func (c *Client) SchedulerConfig(ctx context.Context, q *Query) (
	*admin.SchedulerConfiguration, *Meta, error,
) {
	answer, meta, err := schedulerConfig.fetch(ctx, c, "", q)
	if err != nil {
		return nil, meta, err
	}
	return answer.SchedulerConfig, meta, nil
}

var schedulerConfigSet = route(put, schedulerConfigPath,
	serveMethod(admin.SchedulerConfigSet, bindSchedulerConfig, whole))

// bindSchedulerConfig reads the configuration from the body. ?cas is the index that the stored one must have.
func bindSchedulerConfig(c *call, req *admin.SchedulerConfigRequest) (err error) {
	err = c.decodeBody(&req.Config)
	if err != nil {
		return err
	}
	req.CAS = c.values().Has("cas")
	req.Config.ModifyIndex, err = numberParam[uint64](c, "cas", 64)
	return err
}

// SetSchedulerConfig replaces the configuration of the scheduler. With cas it replaces only one that has the
// ModifyIndex of the new one, 0 for none; otherwise updated is false.
func (c *Client) SetSchedulerConfig(
	ctx context.Context,
	config *admin.SchedulerConfiguration,
	cas bool,
) (updated bool, err error) {
	params := url.Values{}
	if cas {
		params.Set("cas", strconv.FormatUint(config.ModifyIndex, 10))
	}
	answer, err := schedulerConfigSet.send(ctx, c, request{query: params, body: config})
	if err != nil {
		return false, err
	}
	return answer.Updated, nil
}
