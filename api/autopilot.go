package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"berth/structs/cluster"
)

const autopilotConfigPath = "/v1/operator/autopilot/configuration"

var autopilotConfig = NewEndpoint(Get, autopilotConfigPath,
	ServeMethod(cluster.AutopilotConfigGet, nil, autopilotConfigOf))

func autopilotConfigOf(a *cluster.AutopilotConfigResponse) *cluster.AutopilotConfig { return a.Config }

// AutopilotConfig reads the configuration of autopilot.
func (c *Client) AutopilotConfig(ctx context.Context, q *Query) (*cluster.AutopilotConfig, *Meta, error) {
	return autopilotConfig.Fetch(ctx, c, "", q)
}

var autopilotConfigSet = NewEndpoint(Put, autopilotConfigPath,
	ServeMethod(cluster.AutopilotConfigSet, bindAutopilotConfig, autopilotUpdated))

func autopilotUpdated(a *cluster.AutopilotConfigSetResponse) bool { return a.Updated }

// bindAutopilotConfig reads the configuration from the body. ?cas is the index that the stored one must have.
func bindAutopilotConfig(c *Call, req *cluster.AutopilotConfigRequest) error {
	var body cluster.AutopilotConfigJSON
	err := c.DecodeBody(&body)
	if err != nil {
		return err
	}
	req.Config, err = body.Row()
	if err != nil {
		return err
	}
	req.CAS = c.Params().Has("cas")
	req.Config.ModifyIndex, err = numberParam[uint64](c, "cas", 64)
	return err
}

// SetAutopilotConfig replaces the configuration of autopilot. With cas it replaces only one that has the
// ModifyIndex of the new one, 0 for none; otherwise updated is false.
func (c *Client) SetAutopilotConfig(
	ctx context.Context,
	config *cluster.AutopilotConfig,
	cas bool,
) (updated bool, err error) {
	params := url.Values{}
	if cas {
		params.Set("cas", strconv.FormatUint(config.ModifyIndex, 10))
	}
	return autopilotConfigSet.Send(ctx, c, Request{Query: params, Body: config})
}

var autopilotHealth = NewEndpoint[*cluster.AutopilotHealthResponse](Get, "/v1/operator/autopilot/health",
	serveAutopilotHealth, answersAlso(http.StatusTooManyRequests))

var callAutopilotHealth = ServeMethod(cluster.AutopilotHealth, nil, Whole)

// serveAutopilotHealth answers with status 429 if a server is unhealthy, as the dialect does.
func serveAutopilotHealth(c *Call) (any, error) {
	answer, err := callAutopilotHealth(c)
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if !answer.(*cluster.AutopilotHealthResponse).Healthy {
		status = http.StatusTooManyRequests
	}
	c.render(status, answer)
	return nil, nil
}

// AutopilotHealth reads the health of the servers, also if one is unhealthy.
func (c *Client) AutopilotHealth(ctx context.Context, q *Query) (
	*cluster.AutopilotHealthResponse, *Meta, error,
) {
	return autopilotHealth.Fetch(ctx, c, "", q)
}
