# Sinatra's params are Rack's: pairs, and the parts of multipart/form-data, related and mixed.
require "sinatra/base"

class App < Sinatra::Base
  set :environment, :production
  get("/") { "Welcome" }
  post("/:place/upload") { params["file"]["tempfile"].read.bytesize.to_s }

  post "/:place/form" do
    name, password = params["username"], params["password"]
    name, password = [name, password].map { |v| v.is_a?(Hash) ? v["tempfile"]&.read : v }
    halt 400, "no login" unless name && password
    File.write("{{guesses}}", "#{name} #{password}\n", mode: "a")
    [name, password] == ["{{user}}", "{{password}}"] ? redirect("/account/home", 302) : halt(401, "wrong")
  end
end
run App
