package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	configFile = "config.json"
	stepsDir   = "skyhook_dir"
	rootDir    = "root_dir"
	configDir  = "configmaps"
)

// maxSource bounds a package's files. What is larger belongs on a server that the package downloads from.
const maxSource = 256 << 20

// file is one regular file of a package.
type file struct {
	data []byte
	mode fs.FileMode
}

// source is a package's directory, with what belongs to the image: config.json, skyhook_dir, root_dir and configmaps.
type source struct {
	dir string
	// files by slash-separated path.
	files map[string]file
	// links are symbolic links and other things that are no files, by path.
	links []string
}

// readSource reads a directory. What does not belong to a package (a README, a Dockerfile) is left out.
func readSource(dir string) (*source, error) {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	s := &source{dir: dir, files: map[string]file{}}
	size := 0
	for _, top := range []string{configFile, stepsDir, rootDir, configDir} {
		err := filepath.WalkDir(filepath.Join(dir, top), func(name string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && name == filepath.Join(dir, top) {
				return nil
			}
			if err != nil || entry.IsDir() {
				return err
			}
			n, err := s.add(name, entry)
			size += n
			if err == nil && size > maxSource {
				err = fmt.Errorf("%s holds more than %d MiB", dir, maxSource>>20)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read package: %w", err)
		}
	}
	return s, nil
}

func (s *source) add(name string, entry fs.DirEntry) (size int, err error) {
	inside, err := filepath.Rel(s.dir, name)
	if err != nil {
		return 0, err
	}
	inside = filepath.ToSlash(inside)
	if !entry.Type().IsRegular() {
		s.links = append(s.links, inside)
		return 0, nil
	}
	info, err := entry.Info()
	if err != nil {
		return 0, err
	}
	if info.Size() > maxSource {
		return 0, fmt.Errorf("%s is larger than %d MiB", name, maxSource>>20)
	}
	data, err := os.ReadFile(name)
	s.files[inside] = file{data, info.Mode().Perm()}
	return len(data), err
}

// names are the paths of all files, sorted.
func (s *source) names() []string { return slices.Sorted(maps.Keys(s.files)) }

// step is the path of a step's file.
func step(p string) string { return path.Join(stepsDir, p) }

// within says whether a path lies below one of the package's directories.
func within(name, dir string) bool { return strings.HasPrefix(name, dir+"/") }
