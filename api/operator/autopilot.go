package operator

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"berth/api"
	"berth/structs/cluster"
)

const autopilotConfigPath = "/v1/operator/autopilot/configuration"

var autopilotConfig = api.NewEndpoint(&table, api.Get, autopilotConfigPath,
	api.ServeMethod(cluster.AutopilotConfigGet, nil, autopilotConfigOf))

func autopilotConfigOf(a *cluster.AutopilotConfigResponse) *cluster.AutopilotConfig { return a.Config }

// GetAutopilotConfig reads the configuration of autopilot.
func GetAutopilotConfig(ctx context.Context, c *api.Client, q *api.Query) (
	*cluster.AutopilotConfig, *api.Meta, error,
) {
	return autopilotConfig.Fetch(ctx, c, "", q)
}

var autopilotConfigSet = api.NewEndpoint(&table, api.Put, autopilotConfigPath,
	api.ServeMethod(cluster.AutopilotConfigSet, bindAutopilotConfig, autopilotUpdated))

func autopilotUpdated(a *cluster.AutopilotConfigSetResponse) bool { return a.Updated }

// bindAutopilotConfig reads the configuration from the body. ?cas is the index that the stored one must have.
func bindAutopilotConfig(c *api.Call, req *cluster.AutopilotConfigRequest) error {
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
	req.Config.ModifyIndex, err = api.NumberParam[uint64](c, "cas", 64)
	return err
}

// SetAutopilotConfig replaces the configuration of autopilot. With cas it replaces only one that has the
// ModifyIndex of the new one, 0 for none; otherwise updated is false.
func SetAutopilotConfig(
	ctx context.Context, c *api.Client,
	config *cluster.AutopilotConfig,
	cas bool,
) (updated bool, err error) {
	params := url.Values{}
	if cas {
		params.Set("cas", strconv.FormatUint(config.ModifyIndex, 10))
	}
	return autopilotConfigSet.Send(ctx, c, api.Request{Query: params, Body: config})
}

var autopilotHealth = api.NewEndpoint[*cluster.AutopilotHealthResponse](&table,
	api.Get, "/v1/operator/autopilot/health", serveAutopilotHealth, api.AnswersAlso(http.StatusTooManyRequests))

var callAutopilotHealth = api.ServeMethod(cluster.AutopilotHealth, nil, api.Whole)

// serveAutopilotHealth answers with status 429 if a server is unhealthy, as the dialect does.
func serveAutopilotHealth(c *api.Call) (any, error) {
	answer, err := callAutopilotHealth(c)
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if !answer.(*cluster.AutopilotHealthResponse).Healthy {
		status = http.StatusTooManyRequests
	}
	c.Render(status, answer)
	return nil, nil
}

// AutopilotHealth reads the health of the servers, also if one is unhealthy.
func AutopilotHealth(ctx context.Context, c *api.Client, q *api.Query) (
	*cluster.AutopilotHealthResponse, *api.Meta, error,
) {
	return autopilotHealth.Fetch(ctx, c, "", q)
}
