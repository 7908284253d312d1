// Package config settles what a command is told: flag before environment before file before
// default. It yields plain options, and is the only package that knows viper.
package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/sweep"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/yamlfile"
)

// Settings are all that a flag, CASERUN_* or the configuration file can give. A tag is the
// flag's name, and in upper case with underscores the variable's.
type Settings struct {
	DB     string `json:"db"`
	Format string `json:"format"`
	HTML   string `json:"html"`             // file of the page of runs that are made
	Retry  bool   `json:"retry-collateral"` // the old name of isolate-faults; Load settles it

	RequireLive    bool `json:"require-live"` // Load settles it: the node is local
	AllowSimulated bool `json:"allow-simulated"`

	MaxRegression string `json:"max-regression"` // as regress.ParseLimits reads it
	NoiseGiven    bool   `json:"-"`              // sim-noise is not the default
	harness.Configuration
}

// keys are the names of all settings, in the order in which they are shown.
var keys = []string{"db", "format", "html", "node", requireLive, "allow-simulated", "devices", "sched", "probe", "workers", "timeout", "mem-cap", "swap", "sm-cap", "slow", "no-mps", "no-footprints", "retry-lost", "guard", "strict",
	"context-reserve", "after-oom", "output-limit", "isolate-faults", oldIsolate, "trace", "tag", "suite", "data", "runs", "seed", simNoise, "sim-failures", "profiles", "history", "max-regression"}

const (
	oldIsolate  = "retry-collateral"
	requireLive = "require-live"
	simNoise    = "sim-noise"
)

// The default file is read where it exists and neither --config nor CASERUN_CONFIG names
// another.
const (
	defaultFile  = "caserun.yaml"
	fileVariable = "CASERUN_CONFIG"
	defaultStore = "caserun.db"
)

// Load settles the configuration for a command with these flags. Settings in over come before
// settings of the configuration file. warn takes lines for the user.
func Load(ctx context.Context, flags *pflag.FlagSet, over map[string]any, warn harness.Say) (Settings, error) {
	v, err := bind(flags)
	if err != nil {
		return Settings{}, err
	}
	fromFile, err := loadFile(ctx, flags)
	if err != nil {
		return Settings{}, err
	}
	if err := checkEnvironment(); err != nil {
		return Settings{}, err
	}
	if err := errors.Join(v.MergeConfigMap(fromFile), v.MergeConfigMap(over)); err != nil {
		return Settings{}, fmt.Errorf("configuration: %w", err)
	}
	s, err := decode(v)
	if err != nil {
		return Settings{}, err
	}
	s.NoiseGiven = v.IsSet(simNoise)
	s.Noise += 0 // -0 is 0
	s.Tag = input.Name(s.Tag)
	if s.Retry {
		warn("retry-collateral is now called isolate-faults: change the flag, the variable or the configuration file that says so")
		s.Isolate, s.Retry = true, false
	}
	if s.RequireLive && flagOf(flags, requireLive) != nil {
		if s.Node, err = liveNode(s.Node); err != nil {
			return Settings{}, err
		}
	}
	return s, s.check()
}

// bind binds flags and the environment.
func bind(flags *pflag.FlagSet) (*viper.Viper, error) {
	v := viper.New()
	for _, key := range keys {
		if flag := flagOf(flags, key); flag != nil {
			if err := v.BindPFlag(key, flag); err != nil {
				return nil, fmt.Errorf("bind --%s: %w", key, err)
			}
		}
		if err := v.BindEnv(key, variable(key)); err != nil {
			return nil, fmt.Errorf("bind environment of %s: %w", key, err)
		}
	}
	return v, nil
}

// loadFile reads the configuration file that the user names, or else the default one if it exists.
func loadFile(ctx context.Context, flags *pflag.FlagSet) (map[string]any, error) {
	file, err := flags.GetString("config")
	if err != nil {
		return nil, err
	}
	if file == "" {
		if file = os.Getenv(fileVariable); file != "" && strings.TrimSpace(file) == "" {
			return nil, fmt.Errorf("%s %q is empty: name a file, or unset it", fileVariable, file)
		}
	}
	explicit := file != ""
	if !explicit {
		file = defaultFile
	}
	settings, err := readSettings(ctx, file)
	if err != nil && (explicit || !userfile.Absent(file)) {
		return nil, fmt.Errorf("configuration file %w", err)
	}
	return settings, nil
}

// liveNode is this machine for --require-live, which refuses simulated nodes. A command may take
// several nodes.
func liveNode(node string) (string, error) {
	for _, name := range nodes.Split(node) {
		if err := nodes.Check(name); err != nil {
			return "", err
		}
		if !nodes.IsLive(name) {
			return "", fmt.Errorf("%s cannot be combined with node %s, which is simulated", requireLive, name)
		}
	}
	return cmp.Or(node, nodes.Local), nil
}

// isKey reports whether a name is a setting's.
func isKey(name string) bool { return slices.Contains(keys, name) }

// IsSetting reports whether a flag is a setting, and not another flag with a setting's name.
func IsSetting(flag *pflag.Flag) bool { return isKey(flag.Name) && flag.Annotations[noSetting] == nil }

// flagOf is the flag of a setting, if the command has that setting.
func flagOf(flags *pflag.FlagSet, key string) *pflag.Flag {
	if flag := flags.Lookup(key); flag != nil && IsSetting(flag) {
		return flag
	}
	return nil
}

// noSetting annotates a flag that has a setting's name and another meaning.
const noSetting = "no-setting"

// NoSetting says that flags with settings' names have other meanings.
func NoSetting(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, noSetting, []string{})
	}
}

// readSettings reads a configuration file: the settings as they are written, by key.
func readSettings(ctx context.Context, path string) (map[string]any, error) {
	out := map[string]any{}
	flags := allFlags()
	err := readYAML(ctx, path, func(key string, at, value ast.Node) (err error) {
		flag := flags.Lookup(key)
		if flag == nil {
			hint := near.DidYouMean("", key, keys)
			if hint == "" {
				hint = "caserun mix --show-config prints all that there are"
			}
			return yamlfile.Fail(at, "unknown key %q: %s", key, hint)
		}
		out[key], err = setFlag(flag, key, value)
		return err
	})
	return out, err
}

// decode takes exactly what v has. Options are squashed into the settings.
func decode(v *viper.Viper) (Settings, error) {
	var s Settings
	err := v.Unmarshal(&s, func(d *mapstructure.DecoderConfig) {
		d.ErrorUnused, d.Squash, d.TagName = true, true, "json"
		d.DecodeHook = mapstructure.TextUnmarshallerHookFunc()
	})
	if wrong := (*mapstructure.DecodeError)(nil); errors.As(err, &wrong) {
		err = fmt.Errorf("%s: %w", wrong.Name(), wrong.Unwrap())
	}
	return s, err
}

// StoreFlag is the flag with which a command in a hint finds the same store; "" for the default
// store.
func (s Settings) StoreFlag() string {
	if s.DB == defaultStore {
		return ""
	}
	return " --db " + input.ShellWord(s.DB)
}

// escaped is text with escapes that YAML and Go both know.
type escaped string

// MarshalYAML implements yaml.BytesMarshaler.
func (e escaped) MarshalYAML() ([]byte, error) { return []byte(strconv.Quote(string(e))), nil }

// Show is the settings that a command with these flags has, as YAML.
func (s Settings) Show(flags *pflag.FlagSet) ([]byte, error) {
	values := s.byKey()
	var shown []byte
	for _, key := range keys {
		if key == oldIsolate || flagOf(flags, key) == nil {
			continue
		}
		value := values[key]
		if key == simNoise && !s.NoiseGiven {
			if flagOf(flags, key).Annotations[ofSweeps] == nil || nodes.IsLive(s.Node) {
				continue // kept as a file, 0 would take the noise from simulated sweeps
			}
			value = sweep.Options{}.Noise(s.Options)
		}
		line, err := showSetting(key, value)
		if err != nil {
			return nil, fmt.Errorf("print configuration: %w", err)
		}
		shown = append(shown, line...)
	}
	if len(shown) == 0 {
		return []byte("{}\n"), nil
	}
	return shown, nil
}

func showSetting(key string, value any) ([]byte, error) {
	if text, ok := value.(string); ok && report.Printable(text, "") != text {
		value = escaped(text)
	}
	if value == "" {
		return fmt.Appendf(nil, "# %s:\n", key), nil // nothing is set, which a file does not say
	}
	return yaml.Marshal(yaml.MapSlice{{Key: key, Value: value}})
}

// byKey are the settings' values by key.
func (s Settings) byKey() map[string]any {
	out := map[string]any{}
	var add func(reflect.Value)
	add = func(v reflect.Value) {
		for field := range v.Type().Fields() {
			value := v.FieldByIndex(field.Index)
			if field.Anonymous {
				add(value)
				continue
			}
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			out[key] = value.Interface()
			if named, ok := value.Interface().(fmt.Stringer); ok {
				out[key] = named.String()
			}
		}
	}
	add(reflect.ValueOf(s))
	return out
}
