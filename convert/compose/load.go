package compose

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"

	"berth/structs"
)

// maxServices is the most services of a compose file.
const maxServices = 200

// load reads the file twice: as it is written, and with the values of its variables.
func (c *converter) load(ctx context.Context, filename string, src []byte) error {
	if len(src) > structs.MaxSource {
		return structs.Invalidf("%s has %d bytes; at most %d are allowed", filename, len(src), structs.MaxSource)
	}

	details := types.ConfigDetails{
		WorkingDir:  filepath.Dir(filename),
		ConfigFiles: []types.ConfigFile{{Filename: filename, Content: src}},
		Environment: types.NewMapping(c.Env),
	}
	name := projectName(filename)
	model, err := loader.LoadModelWithContext(ctx, details, func(o *loader.Options) {
		o.SetProjectName(name, false)
		o.SkipInterpolation = true
		o.SkipValidation = true
		o.SkipResolveEnvironment = true
		o.SkipResolveLabels = true
		o.SkipNormalization = true
		o.SkipConsistencyCheck = true
	})
	if err != nil {
		return structs.Invalidf("%s is not a compose file: %w", filename, err)
	}

	c.written = takeEnvironments(model)
	err = c.checkVariables(filename, model)
	if err != nil {
		return err
	}

	c.project, err = loader.LoadWithContext(ctx, details, func(o *loader.Options) {
		o.SetProjectName(name, false)
		o.SkipResolveEnvironment = true
		o.SkipResolveLabels = true
		o.SkipNormalization = true
		o.ResolvePaths = false
		// The library would log each variable without a value.
		o.Interpolate.Substitute = func(text string, mapping template.Mapping) (string, error) {
			return template.SubstituteWithOptions(text, mapping, template.WithoutLogging)
		}
	})
	switch {
	case err != nil:
		return structs.Invalidf("%s is not a compose file: %w", filename, err)
	case len(c.project.Services) == 0:
		return structs.Invalidf("%s has no services", filename)
	case len(c.project.Services) > maxServices:
		return structs.Invalidf("%s has %d services; at most %d are allowed: divide it", filename,
			len(c.project.Services), maxServices)
	}
	return nil
}

// genericName matches the usual names of compose files, which say nothing about their content.
var genericName = regexp.MustCompile(`^(docker-)?compose\.ya?ml$`)

// projectName returns the name of the job, unless the file has one.
func projectName(filename string) string {
	base := filepath.Base(filename)
	name := strings.TrimSuffix(base, filepath.Ext(base))
	if genericName.MatchString(base) {
		dir, err := filepath.Abs(filepath.Dir(filename))
		if err == nil {
			name = filepath.Base(dir)
		}
	}
	name = loader.NormalizeProjectName(name)
	if name == "" {
		return "compose"
	}
	return name
}

// takeEnvironments removes the environments from a model, and returns them by service. A variable without a
// value is one of the user's shell.
func takeEnvironments(model map[string]any) map[string]map[string]string {
	all := map[string]map[string]string{}
	services, _ := model["services"].(map[string]any)
	for name, service := range services {
		fields, _ := service.(map[string]any)
		written := map[string]string{}
		switch env := fields["environment"].(type) {
		case map[string]any:
			for key, value := range env {
				text, isText := value.(string)
				if isText {
					written[key] = text
				}
			}
		case []any:
			for _, pair := range env {
				text, _ := pair.(string)
				key, value, _ := strings.Cut(text, "=")
				written[key] = value
			}
		}
		all[name] = written
		delete(fields, "environment")
	}
	return all
}

// checkVariables rejects a file with variables that have no value, outside of environments.
func (c *converter) checkVariables(filename string, model map[string]any) error {
	given := types.NewMapping(c.Env)
	var missing []string
	for name, v := range sorted(template.ExtractVariables(model, template.DefaultPattern)) {
		_, known := given[name]
		if !known && v.DefaultValue == "" {
			missing = append(missing, name)
		}
		if isSecret(name, cmp.Or(given[name], v.DefaultValue)) {
			c.note("", "The value of %s is in the job file: if it is a secret, have the program read it from "+
				"a variable of its environment", name)
		}
	}
	if len(missing) > 0 {
		return structs.Invalidf("%s: variables without a value: %s; set them in the environment, as for docker compose", filename, strings.Join(missing, ", "))
	}
	return nil
}

// names returns the services in the order of their names.
func (c *converter) names() []string { return slices.Sorted(maps.Keys(c.project.Services)) }
