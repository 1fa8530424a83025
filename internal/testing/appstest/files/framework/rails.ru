# A Rails API whose wrap_parameters puts a JSON object's members below "session" as well.
require "logger"
require "rails"
require "action_controller/railtie"

class App < Rails::Application
  config.load_defaults 6.1
  config.root = "{{folder}}"
  config.eager_load = false
  config.hosts.clear
  config.log_level = :warn
  config.logger = Logger.new($stderr)
  config.secret_key_base = "not a secret, " * 4
end

class SessionsController < ActionController::API
  include ActionController::ParamsWrapper
  wrap_parameters :session, include: %i[username password], format: :json
  def index = render(plain: "Welcome")
  def upload = render(plain: params[:file].size.to_s)

  def create
    sent = params[:session].respond_to?(:key?) ? params[:session] : params
    name, password = sent[:username], sent[:password]
    return render(plain: "no login", status: 400) unless name.is_a?(String) && password.is_a?(String)
    File.write("{{guesses}}", "#{name} #{password}\n", mode: "a")
    return redirect_to("/account/home") if [name, password] == ["{{user}}", "{{password}}"]
    render(plain: "wrong", status: 401)
  end
end

App.initialize!
Rails.application.routes.draw do
  root to: "sessions#index"
  post ":place/upload", to: "sessions#upload"
  match ":place/form", to: "sessions#create", via: :all
end
run App
