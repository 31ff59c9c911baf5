package validate

import (
	"path"
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// checkCSIPlugin checks how a task runs a CSI plugin. Its directories are mounted into the task, so that
// neither may hide the other.
func checkCSIPlugin(f field.Errors, c *structs.CSIPluginConfig) {
	f.CheckOneOf("type", c.Type,
		[]string{structs.CSIPluginNode, structs.CSIPluginController, structs.CSIPluginMonolith})
	checkAbsolutePath(f, "mount_dir", c.MountDir)
	checkAbsolutePath(f, "stage_publish_base_dir", c.StagePublishBaseDir)
	f.Require(len(c.StagePublishBaseDir) <= structs.MaxPluginBaseDir,
		"stage_publish_base_dir is %d bytes long, at most %d are allowed: "+
			"a path for a plugin has at most 128", len(c.StagePublishBaseDir), structs.MaxPluginBaseDir)
	mount := path.Clean(c.MountDir)
	stage := path.Clean(c.StagePublishBaseDir)
	f.Require(stage != mount && !strings.HasPrefix(stage, mount+"/"),
		"stage_publish_base_dir %q must not be within mount_dir %q", stage, mount)
	f.Require(!strings.HasPrefix(mount, stage+"/"),
		"mount_dir %q must not be within stage_publish_base_dir %q", mount, stage)
	f.Require(c.HealthTimeout > 0, "health_timeout must be above zero")
	f.CheckDuration("hang_timeout", c.HangTimeout, structs.MaxTaskWait)

	// The text is sent with each report of the plugin.
	f.CheckString("former_provider", c.FormerProvider, structs.MaxProvider)
	f.CheckDuration("health_timeout", c.HealthTimeout, structs.MaxTaskWait)
	checkPluginTokens(f, c)
}

// checkPluginTokens checks the tokens for the calls of the plugin. None is for the API of the cluster: a
// token of an allocation would give the driver the rights of its tasks.
func checkPluginTokens(f field.Errors, c *structs.CSIPluginConfig) {
	seen := map[string]bool{}
	for i, t := range field.FirstOf(f, "tokens", c.Tokens, structs.MaxAudiences) {
		f := f.At("token %d", i+1)
		if t == nil {
			f.Addf("it is null")
			continue
		}

		f.Require(t.Audience != "", "audience is required")
		f.CheckString("audience", t.Audience, structs.MaxName)
		f.Require(!seen[t.Audience], "audience %q is that of another token", t.Audience)
		f.Require(t.Audience != structs.DefaultAudience,
			"a plugin gets no token for the API of the cluster; give its task an identity")
		f.Require(t.TTL >= structs.MinIdentityTTL, "ttl %s must be at least %s", t.TTL, structs.MinIdentityTTL)
		f.CheckDuration("ttl", max(0, t.TTL), structs.MaxIdentityTTL)
		seen[t.Audience] = true
	}

	if len(c.Tokens) == 0 {
		f.Require(c.TokensIn == "", "tokens_in needs a token block")
		f.Require(!c.RequiresRepublish, "requires_republish needs a token block")
		return
	}

	f.Require(slices.Contains(c.Kinds(), structs.CSIKindNode),
		"a token is for NodePublishVolume, and a plugin with type = %q has no such call", c.Type)
	f.CheckOneOf("tokens_in", c.TokensIn, []string{structs.TokensInContext, structs.TokensInSecrets})
}

// checkAbsolutePath checks a directory inside a task that something is mounted on.
func checkAbsolutePath(f field.Errors, name, dir string) {
	f.CheckText(name, dir)
	f.Require(path.IsAbs(dir) && path.Clean(dir) != "/" &&
		!strings.ContainsRune(dir, 0),
		"%s %q must be an absolute path other than /", name, dir)
}
